package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newGroup(s *session) *cobra.Command {
	conn := &connection{}
	group := parent("group", "List, describe, reset and delete consumer groups",
		newGroupList(s, conn), newGroupDescribe(s, conn), newGroupReset(s, conn), newGroupDelete(s, conn))
	conn.addFlags(group.PersistentFlags())
	return group
}

func newGroupList(s *session, conn *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List groups with their states",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				groups, err := admin.ListGroups(cmd.Context())
				if err != nil {
					return fmt.Errorf("listing groups: %w", err)
				}
				type row struct {
					Group    string `json:"group"`
					State    string `json:"state"`
					Protocol string `json:"protocol_type"`
				}
				rows, cells := []row{}, [][]string{}
				for _, g := range groups.Sorted() {
					rows = append(rows, row{g.Group, g.State, g.ProtocolType})
					cells = append(cells, []string{g.Group, g.State, g.ProtocolType})
				}
				return s.table(rows, []string{"GROUP", "STATE", "PROTOCOL"}, cells)
			})
		},
	}
}

type lagRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member,omitempty"`
	Client    string `json:"client,omitempty"`
	Host      string `json:"host,omitempty"`
}

type groupDescription struct {
	Group   string   `json:"group"`
	State   string   `json:"state"`
	Members int      `json:"members"`
	Lag     int64    `json:"lag"`
	Offsets []lagRow `json:"offsets"`
}

func newGroupDescribe(s *session, conn *connection) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(conn.groupNames).args,
		Use:               "describe GROUP...",
		Short:             "Show committed offsets, lag and members of groups",
		Args:              someArgs("group's name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				groups, err := describeGroups(cmd.Context(), admin, names)
				if err != nil {
					return err
				}
				if s.json() {
					return s.printJSON(groups)
				}
				for _, g := range groups {
					if err := printGroup(s, g); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func describeGroups(ctx context.Context, admin *kadm.Client, names []string) ([]groupDescription, error) {
	lags, err := admin.Lag(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describing groups: %w", err)
	}
	var groups []groupDescription
	for _, l := range lags.Sorted() {
		if err := errors.Join(l.DescribeErr, l.FetchErr); err != nil {
			return nil, fmt.Errorf("describing group %s: %w", l.Group, err)
		}
		g := groupDescription{Group: l.Group, State: l.State, Members: len(l.Members), Lag: l.Lag.Total(), Offsets: []lagRow{}}
		for _, p := range l.Lag.Sorted() {
			row := lagRow{Topic: p.Topic, Partition: p.Partition, Committed: p.Commit.At, End: p.End.Offset, Lag: p.Lag}
			if p.Member != nil {
				row.Member, row.Client, row.Host = p.Member.MemberID, p.Member.ClientID, p.Member.ClientHost
			}
			g.Offsets = append(g.Offsets, row)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func printGroup(s *session, g groupDescription) error {
	fmt.Fprintf(s.out, "%s  %s, %s, lag %d\n\n", g.Group, g.State, counted(g.Members, "member"), g.Lag)
	var cells [][]string
	for _, r := range g.Offsets {
		committed := strconv.FormatInt(r.Committed, 10)
		if r.Committed < 0 {
			committed = "-" // nothing committed yet
		}
		cells = append(cells, []string{r.Topic, strconv.Itoa(int(r.Partition)), committed, strconv.FormatInt(r.End, 10), strconv.FormatInt(r.Lag, 10), r.Client, r.Host})
	}
	return s.table(nil, []string{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST"}, cells)
}

func newGroupReset(s *session, conn *connection) *cobra.Command {
	var (
		topics []string
		to     string
		dryRun bool
	)
	cmd := &cobra.Command{
		ValidArgsFunction: completion(conn.groupNames).args,
		Use:               "reset-offsets GROUP",
		Short:             "Move the committed offsets of a group without members",
		Example: `  millrace group reset-offsets billing --topic orders --to start
  millrace group reset-offsets billing --topic orders --to 2026-11-30T00:00:00Z --dry-run`,
		Args: oneArg("group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(topics) == 0 {
				return usagef("name the topics with --topic")
			}
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				return resetOffsets(cmd.Context(), s, admin, args[0], topics, to, dryRun)
			})
		},
	}
	cmd.Flags().StringSliceVarP(&topics, "topic", "t", nil, "topic to move in; may be given several times")
	cmd.Flags().StringVar(&to, "to", "start", "where to: start, end, an offset, or a time such as 2026-11-30T10:00:00Z")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be committed, and commit nothing")
	return cmd
}

func resetOffsets(ctx context.Context, s *session, admin *kadm.Client, group string, topics []string, to string, dryRun bool) error {
	offsets, err := targetOffsets(ctx, admin, topics, to)
	if err != nil {
		return err
	}
	described, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return fmt.Errorf("describing group %s: %w", group, err)
	}
	if n := len(described[group].Members); n > 0 {
		return fmt.Errorf("group %s has %d members, which would overwrite the offsets: stop them first", group, n)
	}
	if !dryRun {
		if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
			return fmt.Errorf("committing for group %s: %w", group, err)
		}
	}
	type row struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
	}
	rows, cells := []row{}, [][]string{}
	for _, o := range offsets.Sorted() {
		rows = append(rows, row{o.Topic, o.Partition, o.At})
		cells = append(cells, []string{o.Topic, strconv.Itoa(int(o.Partition)), strconv.FormatInt(o.At, 10)})
	}
	return s.table(rows, []string{"TOPIC", "PARTITION", "OFFSET"}, cells)
}

// targetOffsets finds what --to means in each partition, within its bounds.
func targetOffsets(ctx context.Context, admin *kadm.Client, topics []string, to string) (kadm.Offsets, error) {
	starts, err := listed(admin.ListStartOffsets(ctx, topics...))
	if err != nil {
		return nil, err
	}
	ends, err := listed(admin.ListEndOffsets(ctx, topics...))
	if err != nil {
		return nil, err
	}
	switch to {
	case "start":
		return starts.Offsets(), nil
	case "end":
		return ends.Offsets(), nil
	}
	if n, err := strconv.ParseInt(to, 10, 64); err == nil && n >= 0 {
		offsets := make(kadm.Offsets)
		ends.Each(func(end kadm.ListedOffset) {
			start, _ := starts.Lookup(end.Topic, end.Partition)
			offsets.Add(kadm.Offset{Topic: end.Topic, Partition: end.Partition, At: min(max(n, start.Offset), end.Offset), LeaderEpoch: -1})
		})
		return offsets, nil
	}
	t, err := time.Parse(time.RFC3339, to)
	if err != nil {
		return nil, usagef("--to %q: expected start, end, an offset, or a time such as 2026-11-30T10:00:00Z", to)
	}
	at, err := listed(admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topics...))
	return at.Offsets(), err
}

// listed joins the errors of single partitions to the error of the request.
func listed(offsets kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("listing offsets: %w", err)
	}
	return offsets, nil
}

func newGroupDelete(s *session, conn *connection) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(conn.groupNames).args,
		Use:               "delete GROUP...",
		Short:             "Delete groups without members, and their offsets",
		Args:              someArgs("group's name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				responses, err := admin.DeleteGroups(cmd.Context(), names...)
				if err != nil {
					return fmt.Errorf("deleting groups: %w", err)
				}
				var failures []error
				for _, r := range responses.Sorted() {
					if r.Err != nil {
						failures = append(failures, fmt.Errorf("deleting group %s: %w", r.Group, r.Err))
						continue
					}
					failures = append(failures, s.result(map[string]string{"deleted": r.Group}, "deleted %s", r.Group))
				}
				return errors.Join(failures...)
			})
		},
	}
}
