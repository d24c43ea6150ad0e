package settings

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// String formats the listener as NAME://host:port.
func (l Listener) String() string {
	return l.Name + "://" + net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// ParseListeners reads addresses of the form NAME://host:port, as in the
// settings listeners and advertised.listeners. Names must differ.
func ParseListeners(items []string) ([]Listener, error) {
	listeners := make([]Listener, 0, len(items))
	names := make(map[string]bool)
	for _, item := range items {
		l, err := parseListener(item)
		if err != nil {
			return nil, fmt.Errorf("address %q: %w", item, err)
		}
		if names[l.Name] {
			return nil, fmt.Errorf("address %q: the name %s is used twice", item, l.Name)
		}
		names[l.Name] = true
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func parseListener(item string) (Listener, error) {
	name, address, ok := strings.Cut(item, "://")
	name = strings.ToUpper(name)
	if !ok || name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return Listener{}, fmt.Errorf("must be of the form PLAINTEXT://host:port")
	}
	switch name {
	case "SSL", "SASL_SSL", "SASL_PLAINTEXT":
		return Listener{}, fmt.Errorf("protocol %s is not served, only PLAINTEXT", name)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return Listener{}, fmt.Errorf("must end in host:port")
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("port must be from 0 to 65535")
	}
	return Listener{Name: name, Host: host, Port: int32(port)}, nil
}

// listenersCheck accepts lists of addresses; advertised ones must be such that
// a client can connect to them.
func listenersCheck(advertised bool) check {
	valid := "a list of NAME://host:port with different names, PLAINTEXT being the only protocol served"
	if advertised {
		valid += ", with a host other than 0.0.0.0 or :: and a port other than 0"
	}
	return check{valid, func(v value) bool {
		listeners, err := ParseListeners(v.list)
		if err != nil || len(listeners) == 0 {
			return false
		}
		for _, l := range listeners {
			if advertised && (l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::" || l.Port == 0) {
				return false
			}
		}
		return true
	}}
}

// mustListeners reads what the check accepted.
func mustListeners(v value) []Listener {
	listeners, err := ParseListeners(v.list)
	if err != nil {
		panic("settings: " + err.Error())
	}
	return listeners
}
