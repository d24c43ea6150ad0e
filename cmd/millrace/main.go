// Command millrace is the whole platform in one binary: broker, Connect
// runtime, bundled connectors, and the tools to work with them.
// Run `millrace help`, or start with `millrace dev`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace/millrace/cmd/millrace/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
