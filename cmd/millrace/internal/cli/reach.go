package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// reachTimeout is how long a command tries to reach a broker before it gives
// up: a client retries for ever, which looks to people like a hang.
const reachTimeout = 10 * time.Second

// reach fails within [reachTimeout] with advice when no broker answers.
func (c *connection) reach(ctx context.Context, client *kgo.Client) error {
	soon, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := client.Ping(soon)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v", reachTimeout)
	}
	return fmt.Errorf("reaching a broker at %s: %w; is one running there (millrace dev), and is --brokers right?",
		strings.Join(c.brokers, ", "), err)
}
