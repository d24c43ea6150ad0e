package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker"
)

type demoOptions struct {
	dir, job, input string
	keep            bool
}

func newDemo(s *session) *cobra.Command {
	o := &demoOptions{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a real pipeline, from an access log to a SQLite file",
		Long: `Run a real pipeline, start to end, on this machine:

  access log --file source--> topic access-log --stream job--> topics page-views
  and visits --SQL sink--> SQLite file, and --file sink--> JSON lines

The broker and the Connect worker run in this process; the connectors and the
stream job (examples/activity, an ordinary Go program) are processes of their
own. It ends by itself when everything has flowed through.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), s, o) },
	}
	cmd.Flags().StringVar(&o.dir, "dir", "", "folder for data and results; empty makes a temporary one")
	cmd.Flags().StringVar(&o.job, "job", "", "executable of the stream job; empty means 'activity' beside this binary")
	cmd.Flags().StringVar(&o.input, "input", "examples/activity/access.log", "access log to read, in the combined format")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "leave everything running at the end, and print the addresses")
	return cmd
}

// complete fills in and checks the options.
func (o *demoOptions) complete() error {
	if o.job == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding the stream job: %w", err)
		}
		o.job = filepath.Join(filepath.Dir(self), "activity")
	}
	if _, err := os.Stat(o.job); err != nil {
		return fmt.Errorf("finding the stream job: %w; `make demo` builds it, and --job names another", err)
	}
	input, err := filepath.Abs(o.input)
	if err == nil {
		_, err = os.Stat(input)
	}
	if err != nil {
		return fmt.Errorf("finding the access log: %w; run the demo in the repository, or name a log with --input", err)
	}
	o.input = input
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "millrace-demo-")
	} else if o.dir, err = filepath.Abs(o.dir); err == nil {
		err = os.MkdirAll(o.dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("making the demo's folder: %w", err)
	}
	return nil
}

func demo(ctx context.Context, s *session, o *demoOptions) error {
	if err := o.complete(); err != nil {
		return err
	}
	// People want to see the results; what was logged is beside them.
	logs, err := os.Create(filepath.Join(o.dir, "demo.log"))
	if err != nil {
		return fmt.Errorf("making the demo's log: %w", err)
	}
	defer logs.Close()
	quiet := *s
	quiet.logTo = logs
	if err := runDemo(ctx, &quiet, o); err != nil {
		return fmt.Errorf("%w\nThe logs are in %s", err, logs.Name())
	}
	return nil
}

func runDemo(ctx context.Context, s *session, o *demoOptions) error {
	cfg := broker.Config{Disk: broker.OnDisk(filepath.Join(o.dir, "broker")), Settings: devSettings, Listen: "127.0.0.1:0", Log: s.logger()}
	worker := workerFlags{listen: "127.0.0.1:0", stateDir: filepath.Join(o.dir, "connect"), interval: 200 * time.Millisecond}
	return runPlatform(ctx, s, cfg, worker, func(ctx context.Context, at ready) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(at.Kafka))
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		defer client.Close()
		d := &demoRun{session: s, demoOptions: o, at: at, admin: kadm.NewClient(client), rest: &restClient{base: at.Connect}, began: time.Now()}
		return d.run(ctx)
	})
}

// demoRun is one run of the demo on a running platform.
type demoRun struct {
	*session
	*demoOptions
	at    ready
	admin *kadm.Client
	rest  *restClient
	began time.Time
}

func (d *demoRun) run(ctx context.Context) error {
	if err := d.setUp(ctx); err != nil {
		return err
	}
	job, err := startJob(ctx, d.job, d.logTo, "--brokers", d.at.Kafka, "--state-dir", filepath.Join(d.dir, "job"))
	if err != nil {
		return err
	}
	err = errors.Join(d.awaitEnd(ctx, job), ctx.Err())
	if err == nil {
		err = d.report(ctx)
	}
	if err == nil && d.keep {
		fmt.Fprintf(d.out, "\nEverything is still running: broker on %s, Connect on %s. Ctrl-C stops it.\n", d.at.Kafka, d.at.Connect)
		select {
		case <-ctx.Done():
		case <-job.done:
		}
	}
	return errors.Join(err, job.stop())
}

// setUp makes the topics and the connectors.
func (d *demoRun) setUp(ctx context.Context) error {
	compact := "compact"
	for topic, configs := range map[string]map[string]*string{
		demoInput: nil, "access-log.dead": nil,
		"page-views": {"cleanup.policy": &compact}, "visits": {"cleanup.policy": &compact},
	} {
		_, err := d.admin.CreateTopic(ctx, demoPartitions, 1, configs, topic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("%s holds an earlier run: name another folder with --dir", d.dir)
		} else if err != nil {
			return fmt.Errorf("creating topic %s: %w", topic, err)
		}
	}
	for _, settings := range d.connectors() {
		name := settings["name"]
		if err := d.rest.call(ctx, "PUT", settings, nil, "connectors", name, "config"); err != nil {
			return fmt.Errorf("creating connector %s: %w", name, err)
		}
	}
	return nil
}

const (
	demoInput = "access-log"
	// demoPartitions shows that the work is shared out, on any machine.
	demoPartitions = 3
	demoJobGroup   = "activity"
	demoSource     = "access-log-in"
)

// demoOutputs are the topics that the job writes and the sinks read.
func demoOutputs() []string { return []string{"page-views", "visits"} }

func demoSinks() []string { return []string{"results-to-sqlite", "results-to-json"} }

func (d *demoRun) database() string { return filepath.Join(d.dir, "activity.db") }
func (d *demoRun) lines() string    { return filepath.Join(d.dir, "json") }

// connectors are the configurations, the sinks first, so that they are there
// when records come.
func (d *demoRun) connectors() []map[string]string {
	sinks := demoSinks()
	return []map[string]string{
		{
			"name": sinks[0], "connector.class": "sql-sink", "topics": strings.Join(demoOutputs(), ","),
			"connection.url": "sqlite:" + d.database(), "insert.mode": "upsert", "delete.enabled": "true", "auto.create": "true",
		}, {
			"name": sinks[1], "connector.class": "file-sink", "topics": strings.Join(demoOutputs(), ","), "path": d.lines(),
		}, {
			"name": demoSource, "connector.class": "file-source", "paths": d.input, "follow": "false", "topic": demoInput,
			"key.converter": "string", "value.converter": "string",
		},
	}
}
