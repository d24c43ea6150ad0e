//go:build !unix

package host

func beWorker(string) {}
