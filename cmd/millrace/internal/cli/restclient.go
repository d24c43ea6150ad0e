package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
)

const defaultConnectURL = "http://localhost:8083"

// restClient talks to a Connect worker's REST API; Kafka Connect's will do.
type restClient struct {
	base string
}

func (c *restClient) addFlags(f *pflag.FlagSet) {
	base := defaultConnectURL
	if env := os.Getenv("MILLRACE_CONNECT_URL"); env != "" {
		base = env
	}
	f.StringVar(&c.base, "connect-url", base, "address of a Connect worker's REST API ($MILLRACE_CONNECT_URL)")
}

// restError is an error that the worker answered with.
type restError struct {
	Code    int    `json:"error_code"`
	Message string `json:"message"`
}

func (e *restError) Error() string { return e.Message }

func isNotFound(err error) bool {
	var e *restError
	return errors.As(err, &e) && e.Code == http.StatusNotFound
}

// restTimeout bounds one call: starting a plugin to validate takes a moment,
// and a worker that hangs should not hang the command.
const restTimeout = 60 * time.Second

// call sends a request with an optional JSON body and decodes the reply into
// out, unless that is nil. path elements are escaped.
func (c *restClient) call(ctx context.Context, method string, body, out any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		text = bytes.NewReader(b)
	}
	target, err := url.Parse(c.base)
	if err != nil || target.Host == "" {
		return usagef("--connect-url %q is not an address such as %s", c.base, defaultConnectURL)
	}
	for _, element := range path {
		target = target.JoinPath(url.PathEscape(element))
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), text)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	return readReply(resp, out)
}

func (c *restClient) unreachable(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("no Connect worker answers at %s: start one (millrace dev, or millrace connect), or give its address with --connect-url", c.base)
	}
	return fmt.Errorf("asking the Connect worker at %s: %w", c.base, err)
}

func readReply(resp *http.Response, out any) error {
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the worker's reply: %w", err)
	}
	if resp.StatusCode >= 300 {
		failure := &restError{Code: resp.StatusCode}
		if json.Unmarshal(text, failure) != nil || failure.Message == "" {
			failure.Message = fmt.Sprintf("the worker answered %s: %s", resp.Status, text)
		}
		return failure
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("reading the worker's reply: %w", err)
	}
	return nil
}
