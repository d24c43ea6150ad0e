package protocol

import (
	"time"

	"github.com/hashicorp/go-plugin"
)

// Version is the version of the protocol. A host and a plugin that share no
// version refuse each other when the plugin starts.
const Version = 1

// PluginKey is the name under which go-plugin knows the one thing that a
// plugin's process serves.
const PluginKey = "connector"

// MaxMessageBytes bounds one gRPC message either way, and with it the largest
// record that can travel.
const MaxMessageBytes = 256 << 20

// LiveDeadline bounds the time that a plugin waits for its host to open the
// Live stream.
const LiveDeadline = 10 * time.Second

// Handshake returns what both sides must agree on before they talk. The cookie
// only keeps people from running a plugin by hand without being told; it
// protects nothing (mutual TLS does).
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  Version,
		MagicCookieKey:   "MILLRACE_PLUGIN",
		MagicCookieValue: "0f1d6a3c-connector",
	}
}
