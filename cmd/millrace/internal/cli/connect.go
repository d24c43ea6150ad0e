package cli

import (
	"github.com/spf13/cobra"
)

func newConnect(s *session) *cobra.Command {
	conn, flags := &connection{}, &workerFlags{}
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Run a Connect worker against a Kafka cluster",
		Long: `Run a Connect worker against a Kafka cluster, Millrace or other, until it is
interrupted. It runs the connectors that 'millrace apply' and 'millrace
connector' give it, and keeps what it knows in topics of the cluster.`,
		Example: `  millrace connect --brokers kafka-1:9092,kafka-2:9092 --plugin-dir /opt/connectors`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := conn.client(cmd.Context()) // the worker has clients of its own
			if err != nil {
				return err
			}
			client.Close()
			opts, err := conn.options()
			if err != nil {
				return err
			}
			node, err := startWorker(cmd.Context(), s, *flags, opts)
			if err != nil {
				return err
			}
			if err := s.result(ready{Connect: node.address()}, "Connect worker ready on %s; Ctrl-C stops it", node.address()); err != nil {
				return err
			}
			return node.run(cmd.Context())
		},
	}
	conn.addFlags(cmd.Flags())
	flags.addFlags(cmd.Flags(), "connect-state")
	return cmd
}
