package cli

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newTopic(s *session) *cobra.Command {
	conn := &connection{}
	topic := parent("topic", "Create, list, describe and delete topics",
		newTopicCreate(s, conn), newTopicList(s, conn), newTopicDescribe(s, conn), newTopicDelete(s, conn))
	conn.addFlags(topic.PersistentFlags())
	return topic
}

func newTopicCreate(s *session, conn *connection) *cobra.Command {
	var (
		partitions  int32
		replication int16
		settings    []string
		ifMissing   bool
	)
	cmd := &cobra.Command{
		Use:   "create NAME...",
		Short: "Create topics",
		Example: `  millrace topic create page-views --partitions 6
  millrace topic create sessions --set cleanup.policy=compact --set retention.ms=-1`,
		Args: someArgs("topic's name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			configs, err := parseSettings(settings)
			if err != nil {
				return err
			}
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				return createTopics(cmd, s, admin, names, partitions, replication, configs, ifMissing)
			})
		},
	}
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 takes the broker's default")
	cmd.Flags().Int16VarP(&replication, "replication-factor", "r", -1, "number of replicas of each partition; -1 takes the broker's default")
	cmd.Flags().StringArrayVar(&settings, "set", nil, "a setting of the topics, NAME=VALUE; may be given several times")
	cmd.Flags().BoolVar(&ifMissing, "if-missing", false, "succeed when a topic is there already")
	return cmd
}

// created is one row of what `topic create` reports.
type created struct {
	Topic      string `json:"topic"`
	ID         string `json:"id,omitempty"`
	Partitions int32  `json:"partitions,omitempty"`
	Existed    bool   `json:"existed,omitempty"`
}

func createTopics(cmd *cobra.Command, s *session, admin *kadm.Client, names []string, partitions int32, replication int16, configs map[string]*string, ifMissing bool) error {
	responses, err := admin.CreateTopics(cmd.Context(), partitions, replication, configs, names...)
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	var failures []error
	for _, r := range responses.Sorted() {
		switch {
		case r.Err == nil:
			err = s.result(created{Topic: r.Topic, ID: topicID(r.ID), Partitions: r.NumPartitions}, "created %s with %s", r.Topic, counted(int(r.NumPartitions), "partition"))
		case ifMissing && errors.Is(r.Err, kerr.TopicAlreadyExists):
			err = s.result(created{Topic: r.Topic, Existed: true}, "%s was there already", r.Topic)
		default:
			err = fmt.Errorf("creating topic %s: %w", r.Topic, withMessage(r.Err, r.ErrMessage))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// topicID prints an id as Kafka's tools do.
func topicID(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// withMessage puts the broker's own words in the place of the general ones of
// a protocol error; errors.Is still finds that.
func withMessage(err error, message string) error {
	var code *kerr.Error
	if err == nil || message == "" || !errors.As(err, &code) {
		return err
	}
	return &brokerError{code, strings.TrimSuffix(message, ".")}
}

type brokerError struct {
	code    *kerr.Error
	message string
}

func (e *brokerError) Error() string { return e.message + " (" + e.code.Message + ")" }
func (e *brokerError) Unwrap() error { return e.code }

// parseSettings reads NAME=VALUE pairs.
func parseSettings(pairs []string) (map[string]*string, error) {
	settings := make(map[string]*string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--set %q: expected NAME=VALUE", pair)
		}
		settings[name] = &value
	}
	return settings, nil
}

func newTopicList(s *session, conn *connection) *cobra.Command {
	var internal bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				list := admin.ListTopics
				if internal {
					list = admin.ListTopicsWithInternal
				}
				details, err := list(cmd.Context())
				if err != nil {
					return fmt.Errorf("listing topics: %w", err)
				}
				return printTopics(s, details)
			})
		},
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "include internal topics")
	return cmd
}

type topicRow struct {
	Topic       string `json:"topic"`
	ID          string `json:"id"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replication_factor"`
	Internal    bool   `json:"internal"`
}

func printTopics(s *session, details kadm.TopicDetails) error {
	rows, cells := []topicRow{}, [][]string{}
	for _, d := range details.Sorted() {
		row := topicRow{d.Topic, topicID(d.ID), len(d.Partitions), d.Partitions.NumReplicas(), d.IsInternal}
		rows = append(rows, row)
		cells = append(cells, []string{row.Topic, strconv.Itoa(row.Partitions), strconv.Itoa(row.Replication)})
	}
	return s.table(rows, []string{"TOPIC", "PARTITIONS", "REPLICAS"}, cells)
}

func newTopicDescribe(s *session, conn *connection) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(conn.topicNames).args,
		Use:               "describe NAME...",
		Short:             "Show partitions, offsets and settings of topics",
		Args:              someArgs("topic's name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				topics, err := describeTopics(cmd, admin, names)
				if err != nil {
					return err
				}
				return printDescriptions(s, topics)
			})
		},
	}
}

type topicDescription struct {
	topicRow
	Offsets  []partitionRow    `json:"offsets"`
	Settings map[string]string `json:"settings"`
}

type partitionRow struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"leader_epoch"`
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"in_sync"`
	Start     int64   `json:"start"`
	End       int64   `json:"end"`
}

func describeTopics(cmd *cobra.Command, admin *kadm.Client, names []string) ([]topicDescription, error) {
	details, err := admin.ListTopics(cmd.Context(), names...)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("describing topics: %w", err)
	}
	starts, err := admin.ListStartOffsets(cmd.Context(), names...)
	if err != nil {
		return nil, fmt.Errorf("listing first offsets: %w", err)
	}
	ends, err := admin.ListEndOffsets(cmd.Context(), names...)
	if err != nil {
		return nil, fmt.Errorf("listing end offsets: %w", err)
	}
	configs, err := admin.DescribeTopicConfigs(cmd.Context(), names...)
	if err != nil {
		return nil, fmt.Errorf("describing settings: %w", err)
	}
	var topics []topicDescription
	for _, d := range details.Sorted() {
		t := topicDescription{topicRow: topicRow{d.Topic, topicID(d.ID), len(d.Partitions), d.Partitions.NumReplicas(), d.IsInternal}, Settings: map[string]string{}}
		for _, p := range d.Partitions.Sorted() {
			start, _ := starts.Lookup(d.Topic, p.Partition)
			end, _ := ends.Lookup(d.Topic, p.Partition)
			t.Offsets = append(t.Offsets, partitionRow{p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, start.Offset, end.Offset})
		}
		rc, err := configs.On(d.Topic, nil)
		if err != nil {
			return nil, fmt.Errorf("describing settings of %s: %w", d.Topic, err)
		}
		for _, c := range rc.Configs {
			if c.Value != nil {
				t.Settings[c.Key] = *c.Value
			}
		}
		topics = append(topics, t)
	}
	return topics, nil
}

func printDescriptions(s *session, topics []topicDescription) error {
	if s.json() {
		return s.printJSON(topics)
	}
	for _, t := range topics {
		fmt.Fprintf(s.out, "%s  id %s\n\n", t.Topic, t.ID)
		var cells [][]string
		for _, p := range t.Offsets {
			cells = append(cells, []string{strconv.Itoa(int(p.Partition)), strconv.Itoa(int(p.Leader)), fmt.Sprint(p.Replicas), fmt.Sprint(p.InSync),
				strconv.FormatInt(p.Start, 10), strconv.FormatInt(p.End, 10)})
		}
		if err := s.table(nil, []string{"PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"}, cells); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
		cells = nil
		for name, value := range t.Settings {
			cells = append(cells, []string{name, value})
		}
		slices.SortFunc(cells, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
		if err := s.table(nil, []string{"SETTING", "VALUE"}, cells); err != nil {
			return err
		}
	}
	return nil
}

func newTopicDelete(s *session, conn *connection) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(conn.topicNames).args,
		Use:               "delete NAME...",
		Short:             "Delete topics and all their records",
		Args:              someArgs("topic's name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				responses, err := admin.DeleteTopics(cmd.Context(), names...)
				if err != nil {
					return fmt.Errorf("deleting topics: %w", err)
				}
				var failures []error
				for _, r := range responses.Sorted() {
					if r.Err != nil {
						failures = append(failures, fmt.Errorf("deleting topic %s: %w", r.Topic, withMessage(r.Err, r.ErrMessage)))
						continue
					}
					failures = append(failures, s.result(map[string]string{"deleted": r.Topic}, "deleted %s", r.Topic))
				}
				return errors.Join(failures...)
			})
		},
	}
}
