package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker"
)

// devSettings make a lone broker on a laptop pleasant: groups form at once,
// as there is no crowd of members to wait for.
var devSettings = map[string]string{"group.initial.rebalance.delay.ms": "0"}

func newDev(s *session) *cobra.Command {
	flags, worker := &brokerFlags{}, &workerFlags{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a broker and a Connect worker on this machine",
		Long: `Run a broker and a Connect worker in one process, for development. The data
stays in a folder: starting again continues where it was. Ctrl-C stops it.`,
		Example: `  millrace dev
  millrace dev --data /tmp/try --listen 127.0.0.1:0 --connect-listen 127.0.0.1:0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if worker.stateDir == "" {
				worker.stateDir = filepath.Join(flags.data, "connect")
			}
			cfg, err := flags.brokerConfig(s, devSettings)
			if err != nil {
				return err
			}
			return runPlatform(cmd.Context(), s, cfg, *worker, func(ctx context.Context, at ready) error {
				at.Data = flags.data
				if err := s.result(at, "broker ready on   %s\nConnect ready on  %s\ndata in           %s\nCtrl-C stops both.", at.Kafka, at.Connect, at.Data); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			})
		},
	}
	flags.addFlags(cmd.Flags(), "millrace-data", "127.0.0.1:9092")
	worker.addFlags(cmd.Flags(), "")
	cmd.Flags().Lookup("connect-state").Usage += "; empty means within --data"
	return cmd
}

// runPlatform runs a broker and a Connect worker for as long as use takes,
// which gets their addresses and a context that ends when one of them fails.
// The worker stops before the broker, so that it can store where it was.
func runPlatform(ctx context.Context, s *session, cfg broker.Config, flags workerFlags, use func(context.Context, ready) error) error {
	b, err := broker.New(ctx, cfg)
	if err != nil {
		return err
	}
	brokerCtx, stopBroker := context.WithCancel(context.WithoutCancel(ctx))
	brokerDone := make(chan error, 1)
	go func() { brokerDone <- b.Run(brokerCtx) }()
	err = runWorkerOn(ctx, s, b, flags, use)
	stopBroker()
	return errors.Join(err, <-brokerDone)
}

func runWorkerOn(ctx context.Context, s *session, b *broker.Broker, flags workerFlags, use func(context.Context, ready) error) error {
	node, err := startWorker(ctx, s, flags, []kgo.Opt{kgo.SeedBrokers(b.Addr())})
	if err != nil {
		return err
	}
	workerCtx, stopWorker := context.WithCancel(context.WithoutCancel(ctx))
	useCtx, stopUse := context.WithCancel(ctx)
	defer stopUse()
	workerDone := make(chan error, 1)
	go func() {
		err := node.run(workerCtx)
		stopUse()
		workerDone <- err
	}()
	err = use(useCtx, ready{Kafka: b.Addr(), Connect: node.address()})
	stopWorker()
	return errors.Join(err, <-workerDone)
}
