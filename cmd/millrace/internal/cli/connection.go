package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const defaultBroker = "localhost:9092"

// connection is how a command reaches a Kafka cluster, from its flags.
type connection struct {
	brokers                    []string
	tls                        bool
	tlsCA, tlsCert, tlsKey     string
	tlsServerName              string
	saslMechanism              string
	saslUser, saslPasswordFile string
}

// passwordVariable holds a password where no flag can leak it to `ps`.
const passwordVariable = "MILLRACE_SASL_PASSWORD"

func (c *connection) addFlags(f *pflag.FlagSet) {
	brokers := []string{defaultBroker}
	if env := os.Getenv("MILLRACE_BROKERS"); env != "" {
		brokers = strings.Split(env, ",")
	}
	f.StringSliceVarP(&c.brokers, "brokers", "b", brokers, "addresses of brokers, host:port, comma-separated ($MILLRACE_BROKERS)")
	f.BoolVar(&c.tls, "tls", false, "connect by TLS")
	f.StringVar(&c.tlsCA, "tls-ca", "", "file of PEM certificates to trust instead of the system's; implies --tls")
	f.StringVar(&c.tlsCert, "tls-cert", "", "file of our PEM certificate, for brokers that ask for one; implies --tls")
	f.StringVar(&c.tlsKey, "tls-key", "", "file of the key of --tls-cert")
	f.StringVar(&c.tlsServerName, "tls-server-name", "", "name to expect in the broker's certificate instead of its host; implies --tls")
	f.StringVar(&c.saslMechanism, "sasl-mechanism", "", "authenticate by plain, scram-sha-256 or scram-sha-512")
	f.StringVar(&c.saslUser, "sasl-user", "", "user to authenticate as")
	f.StringVar(&c.saslPasswordFile, "sasl-password-file", "", "file that holds the password; without it $"+passwordVariable)
}

// options turns the flags into options of a client.
func (c *connection) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ClientID("millrace-cli")}
	secure, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		opts = append(opts, kgo.DialTLSConfig(secure))
	}
	mechanism, err := c.sasl()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

func (c *connection) tlsConfig() (*tls.Config, error) {
	if !c.tls && c.tlsCA == "" && c.tlsCert == "" && c.tlsServerName == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.tlsServerName}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("reading --tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca: %s holds no PEM certificate", c.tlsCA)
		}
	}
	if c.tlsCert != "" {
		if c.tlsKey == "" {
			return nil, usagef("--tls-cert needs --tls-key")
		}
		pair, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("reading --tls-cert and --tls-key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func (c *connection) sasl() (sasl.Mechanism, error) {
	if c.saslMechanism == "" {
		if c.saslUser != "" {
			return nil, usagef("--sasl-user needs --sasl-mechanism")
		}
		return nil, nil
	}
	password := os.Getenv(passwordVariable)
	if c.saslPasswordFile != "" {
		b, err := os.ReadFile(c.saslPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("reading --sasl-password-file: %w", err)
		}
		password = strings.TrimRight(string(b), "\r\n")
	}
	if c.saslUser == "" || password == "" {
		return nil, usagef("--sasl-mechanism needs --sasl-user, and a password in --sasl-password-file or $%s", passwordVariable)
	}
	switch strings.ToLower(c.saslMechanism) {
	case "plain":
		return plain.Auth{User: c.saslUser, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: c.saslUser, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: c.saslUser, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, usagef("--sasl-mechanism %q is none of plain, scram-sha-256, scram-sha-512", c.saslMechanism)
}

// client makes a client that has reached a broker; the caller closes it.
func (c *connection) client(ctx context.Context, extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, usageError{err}
	}
	if err := c.reach(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// withAdmin gives run an admin client that has reached a broker.
func (c *connection) withAdmin(cmd *cobra.Command, run func(*kadm.Client) error) error {
	client, err := c.client(cmd.Context())
	if err != nil {
		return err
	}
	defer client.Close()
	return run(kadm.NewClient(client))
}
