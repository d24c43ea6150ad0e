package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace/millrace/broker"
	"github.com/millrace/millrace/connect/config"
)

// brokerFlags describe a broker on the command line.
type brokerFlags struct {
	data, listen, advertise, config string
	set                             []string
}

func (b *brokerFlags) addFlags(f *pflag.FlagSet, data, listen string) {
	f.StringVar(&b.data, "data", data, "folder for the data; it is made if missing")
	f.StringVar(&b.listen, "listen", listen, "host:port to serve Kafka clients on; port 0 takes any free one")
	f.StringVar(&b.advertise, "advertise", "", "host:port that clients are told to connect to, if not --listen")
	f.StringVar(&b.config, "config", "", "YAML file with settings of the broker, by Kafka's names")
	f.StringArrayVar(&b.set, "set", nil, "a setting of the broker, NAME=VALUE; overrides the file; may be given several times")
}

// brokerConfig is what the flags and the file say, over the command's defaults.
func (b *brokerFlags) brokerConfig(s *session, defaults map[string]string) (broker.Config, error) {
	if _, port, err := net.SplitHostPort(b.listen); err != nil {
		return broker.Config{}, usagef("--listen %q: expected host:port, such as 127.0.0.1:9092", b.listen)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return broker.Config{}, usagef("--listen %q: the port must be a number from 0 to 65535", b.listen)
	}
	settings := map[string]string{}
	maps.Copy(settings, defaults)
	if b.config != "" {
		text, err := os.ReadFile(b.config)
		if err != nil {
			return broker.Config{}, fmt.Errorf("reading the settings: %w", err)
		}
		file, err := config.ParseSettings(b.config, text)
		if err != nil {
			return broker.Config{}, err
		}
		maps.Copy(settings, file)
	}
	given, err := settingsOf(b.set)
	if err != nil {
		return broker.Config{}, err
	}
	maps.Copy(settings, given)
	cfg := broker.Config{Disk: broker.OnDisk(b.data), Settings: settings, Listen: b.listen, Advertise: b.advertise, Log: s.logger()}
	if _, own := settings["listeners"]; own {
		cfg.Listen = ""
	}
	return cfg, nil
}

// ready is printed once what was started serves.
type ready struct {
	Kafka   string `json:"kafka,omitempty"`
	Connect string `json:"connect,omitempty"`
	Data    string `json:"data,omitempty"`
}

func newBroker(s *session) *cobra.Command {
	flags := &brokerFlags{}
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a broker",
		Long: `Run a broker until it is interrupted. Any Kafka client can use it.

It listens on this machine only, unless --listen says otherwise. Settings are
Kafka's own, by --set, or in a YAML file for --config:

  log.retention.hours: 24
  num.partitions: 3`,
		Example: `  millrace broker --data /var/lib/millrace --listen 0.0.0.0:9092 --advertise logs.example.com:9092`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.brokerConfig(s, nil)
			if err != nil {
				return err
			}
			return runBroker(cmd.Context(), cfg, func(b *broker.Broker) error {
				at := ready{Kafka: b.Addr(), Data: flags.data}
				return s.result(at, "broker ready on %s, data in %s; Ctrl-C stops it", at.Kafka, at.Data)
			})
		},
	}
	flags.addFlags(cmd.Flags(), "millrace-data", "127.0.0.1:9092")
	return cmd
}

// runBroker serves until ctx ends, and tells when it began to.
func runBroker(ctx context.Context, cfg broker.Config, started func(*broker.Broker) error) error {
	b, err := broker.New(ctx, cfg)
	if err != nil {
		return err
	}
	if err := started(b); err != nil {
		return err
	}
	return b.Run(ctx)
}
