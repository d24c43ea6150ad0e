package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hit is one line of an access log.
type Hit struct {
	Visitor string    `json:"visitor"` // the client's address
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	Path    string    `json:"path"` // without query
	Status  int       `json:"status"`
	Bytes   int64     `json:"bytes"`
	Agent   string    `json:"agent"`
}

// ParseHit parses a line of the "combined" format that Apache and nginx write:
//
//	address identity user [time] "method target protocol" status bytes "referrer" "user agent"
//
// A quote inside a quoted field is written \". Fields after the user agent, which some servers add, are ignored.
func ParseHit(line string) (Hit, error) {
	head, rest, ok := strings.Cut(line, " [")
	if !ok {
		return Hit{}, errors.New("no [time]")
	}
	names := strings.Fields(head)
	if len(names) != 3 {
		return Hit{}, fmt.Errorf("want address, identity and user before the time, found %d fields", len(names))
	}
	stamp, rest, ok := strings.Cut(rest, "] ")
	if !ok {
		return Hit{}, errors.New("the time's ] is missing")
	}
	at, err := time.Parse(timeLayout, stamp)
	if err != nil {
		return Hit{}, fmt.Errorf("the time: %w", err)
	}
	request, rest, err := quoted(rest)
	if err != nil {
		return Hit{}, fmt.Errorf("the request: %w", err)
	}
	numbers, rest, _ := strings.Cut(strings.TrimPrefix(rest, " "), ` "`)
	hit := Hit{Visitor: names[0], Time: at.UTC()}
	if hit.Method, hit.Path, err = parseRequest(request); err != nil {
		return Hit{}, err
	}
	if hit.Status, hit.Bytes, err = parseNumbers(numbers); err != nil {
		return Hit{}, err
	}
	_, rest, err = quoted(`"` + rest)
	if err != nil {
		return Hit{}, fmt.Errorf("the referrer: %w", err)
	}
	if hit.Agent, _, err = quoted(strings.TrimPrefix(rest, " ")); err != nil {
		return Hit{}, fmt.Errorf("the user agent: %w", err)
	}
	return hit, nil
}

const timeLayout = "02/Jan/2006:15:04:05 -0700"

// LineTime finds the time of a line, also of one that is broken after it.
func LineTime(line string) (time.Time, bool) {
	_, rest, _ := strings.Cut(line, " [")
	stamp, _, ok := strings.Cut(rest, "]")
	at, err := time.Parse(timeLayout, stamp)
	return at, ok && err == nil
}

// quoted splits off the quoted field that s begins with.
func quoted(s string) (field, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("it does not begin with a quote")
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], s[i+1:], nil
		}
	}
	return "", "", errors.New("its closing quote is missing")
}

func parseRequest(request string) (method, path string, err error) {
	fields := strings.Split(request, " ")
	if len(fields) != 3 || !strings.HasPrefix(fields[2], "HTTP/") {
		return "", "", fmt.Errorf("the request %q is not method, target and protocol", request)
	}
	path, _, _ = strings.Cut(fields[1], "?")
	return fields[0], path, nil
}

func parseNumbers(s string) (status int, bytes int64, err error) {
	code, size, ok := strings.Cut(s, " ")
	if !ok {
		return 0, 0, errors.New("status and size are missing")
	}
	if status, err = strconv.Atoi(code); err != nil {
		return 0, 0, fmt.Errorf("the status: %w", err)
	}
	if size == "-" { // nothing was sent
		return status, 0, nil
	}
	if bytes, err = strconv.ParseInt(size, 10, 64); err != nil || bytes < 0 {
		return 0, 0, fmt.Errorf("the size %q is not a number", size)
	}
	return status, bytes, nil
}
