package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reachTimeout is how long a command tries to reach a broker before it gives
// up: a client retries for ever, which looks to people like a hang.
const reachTimeout = 10 * time.Second

// reach fails within [reachTimeout] with advice when no broker answers.
func (c *connection) reach(cmd *cobra.Command, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), reachTimeout)
	defer cancel()
	err := client.Ping(ctx)
	switch {
	case err == nil:
		return nil
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v", reachTimeout)
	}
	return fmt.Errorf("reaching a broker at %s: %w; is one running there (millrace dev), and is --brokers right?",
		strings.Join(c.brokers, ", "), err)
}
