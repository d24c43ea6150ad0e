package connector

import "io"

func writeSpec(w io.Writer, p Plugin) error { panic(1) }
func serve(Plugin)                          { panic(1) }
