package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/connect"
)

// demoPoll is how often the demo looks whether a stage has come to its end.
const demoPoll = 20 * time.Millisecond

// demoPatience bounds the whole wait, so that a fault shows as an error.
const demoPatience = 2 * time.Minute

// awaitEnd returns when all has flowed through: the source has read its file
// to the end, the job has committed the ends of its inputs, and so have the
// sinks. The stages are awaited in the order of the flow, since the end of one
// is only final when the one before it has stopped.
func (d *demoRun) awaitEnd(ctx context.Context, job *jobProcess) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, fmt.Errorf("it took longer than %v", demoPatience))
	defer cancel()
	bar := d.newProgress("reading the access log")
	err := d.await(ctx, job, "the source to read its file", func() (bool, error) { return d.sourceDone(ctx, bar) })
	bar.end()
	if err != nil {
		return err
	}
	inputs := func() ([]string, error) { return d.jobInputs(ctx) }
	if err := d.await(ctx, job, "the job to process its inputs", func() (bool, error) { return d.caughtUp(ctx, demoJobGroup, inputs) }); err != nil {
		return err
	}
	outputs := func() ([]string, error) { return demoOutputs(), nil }
	for _, sink := range demoSinks() {
		if err := d.await(ctx, job, "sink "+sink+" to write its topics", func() (bool, error) {
			if err := d.connectorHealth(ctx, sink); err != nil {
				return false, err
			}
			return d.caughtUp(ctx, "connect-"+sink, outputs)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (d *demoRun) await(ctx context.Context, job *jobProcess, what string, done func() (bool, error)) error {
	ticker := time.NewTicker(demoPoll)
	defer ticker.Stop()
	for {
		ok, err := done()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", what, err)
		case ok:
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		case <-job.done:
			return errors.Join(errors.New("the stream job ended before its time"), job.err)
		}
	}
}

func (d *demoRun) sourceDone(ctx context.Context, bar *progress) (bool, error) {
	status, err := d.connectorStatus(ctx, demoSource)
	if err != nil || len(status.Tasks) == 0 {
		return false, err
	}
	done := true
	for _, t := range status.Tasks {
		if t.Progress != nil {
			bar.set(t.Progress.Done, t.Progress.Total)
		}
		done = done && t.State == connect.Completed
	}
	return done, nil
}

func (d *demoRun) connectorHealth(ctx context.Context, name string) error {
	_, err := d.connectorStatus(ctx, name)
	return err
}

// connectorStatus is an error when a connector has failed for good. One whose
// process is being started again only needs time.
func (d *demoRun) connectorStatus(ctx context.Context, name string) (connect.ConnectorStatus, error) {
	var status connect.ConnectorStatus
	if err := d.rest.call(ctx, "GET", nil, &status, "connectors", name, "status"); err != nil {
		return status, err
	}
	states := []connect.Status{status.Connector}
	for _, t := range status.Tasks {
		states = append(states, t.Status)
	}
	for _, s := range states {
		if s.State == connect.Failed && !s.Retrying {
			return status, fmt.Errorf("connector %s failed: %s", name, s.Trace)
		}
	}
	return status, nil
}

// jobInputs are the topics that the job reads: its source, and what it
// repartitions through.
func (d *demoRun) jobInputs(ctx context.Context) ([]string, error) {
	topics, err := d.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing topics: %w", err)
	}
	inputs := []string{demoInput}
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, demoJobGroup+"-") && strings.HasSuffix(name, "-repartition") {
			inputs = append(inputs, name)
		}
	}
	return inputs, nil
}

// caughtUp tells whether a group has committed the ends of all partitions of
// the topics. Topics are looked at in order, each end after the commits: what
// feeds a later topic comes first.
func (d *demoRun) caughtUp(ctx context.Context, group string, topics func() ([]string, error)) (bool, error) {
	names, err := topics()
	if err != nil {
		return false, err
	}
	for _, topic := range names {
		committed, err := d.admin.FetchOffsets(ctx, group)
		if err != nil {
			return false, nil // the group is not there yet, or its coordinator moves
		}
		ends, err := listed(d.admin.ListEndOffsets(ctx, topic))
		if err != nil {
			return false, err
		}
		for partition, end := range ends[topic] {
			at, ok := committed.Lookup(topic, partition)
			if end.Offset > 0 && (!ok || at.At < end.Offset) {
				return false, nil
			}
		}
	}
	return true, nil
}
