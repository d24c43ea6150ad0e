package cli

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// completeTimeout bounds how long the Tab key may take.
const completeTimeout = 2 * time.Second

// completion offers names for the arguments of a command. What cannot be asked
// for offers nothing: a shell is no place for errors.
type completion func(ctx context.Context) ([]string, error)

func (c completion) args(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeTimeout)
	defer cancel()
	names, err := c(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (c *connection) topicNames(ctx context.Context) ([]string, error) {
	client, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx)
	return topics.Names(), err
}

func (c *connection) groupNames(ctx context.Context) ([]string, error) {
	client, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	groups, err := kadm.NewClient(client).ListGroups(ctx)
	return groups.Groups(), err
}

func (c *restClient) connectorNames(ctx context.Context) ([]string, error) {
	var names []string
	err := c.call(ctx, http.MethodGet, nil, &names, "connectors")
	return names, err
}
