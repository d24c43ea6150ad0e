package main

import (
	"path"
	"strings"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/window"
)

// The job's topics. They must exist before it starts.
const (
	accessLogTopic = "access-log"      // in: one line of an access log a record
	deadTopic      = "access-log.dead" // out: lines that do not parse, with the reason in headers
	pageViewsTopic = "page-views"      // out: PageKey to PageViews
	visitsTopic    = "visits"          // out: VisitKey to Visit
)

// grace is how far out of order hits may arrive and still count. A replay of old logs reads the partitions of access-log at
// different speeds, and mixes them in the internal topics: a hit of the first day can come after one of the last. So
// the grace has to cover the time span of what may be replayed at once. All it costs is that windows stay in the state
// store for as long; results are emitted on every update and do not wait for it.
const grace = 31 * 24 * time.Hour

// PageKey is the key of page-views.
type PageKey struct {
	Path        string    `json:"path"`
	WindowStart time.Time `json:"window_start"`
}

// PageViews is the value of page-views: what a page got in a minute.
type PageViews struct {
	Views int64 `json:"views"`
	Bytes int64 `json:"bytes"`
}

// VisitKey is the key of visits. Start and end are the times of the visit's first and last hit. When a visit grows, its row is
// deleted and written again under its new key.
type VisitKey struct {
	Visitor string    `json:"visitor"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
}

// Visit is the value of visits.
type Visit struct {
	Hits int64 `json:"hits"`
}

// Topology describes the job: from lines of an access log to views per page and minute, and to visits.
func Topology() (*streams.Topology, error) {
	b := streams.NewBuilder("activity")

	hits := b.Stream(accessLogTopic, serde.String, serde.String,
		// Windows follow the time in the line, not the time when it was read. A line without one goes on with the time of
		// its neighbours, and fails to parse below.
		streams.EventTime(func(_, line string) (time.Time, bool) { return LineTime(line) }),
		streams.InvalidTimes(streams.UsePartitionTime)).
		TryMap("parse", func(at, line string) (string, Hit, error) {
			hit, err := ParseHit(line)
			return at, hit, err
		}).
		Filter(func(_ string, h Hit) bool { return isPageView(h) }).
		With(serde.String, serde.JSON[Hit]())

	hits.GroupBy("by-page", func(_ string, h Hit) string { return h.Path }, serde.String).
		WindowedBy(window.Tumbling(time.Minute).Grace(grace)).
		Aggregate("page-views",
			func() PageViews { return PageViews{} },
			func(_ string, h Hit, sum PageViews) PageViews {
				return PageViews{Views: sum.Views + 1, Bytes: sum.Bytes + h.Bytes}
			},
			serde.JSON[PageViews]()).
		ToStream().
		Map(func(w window.Windowed[string], v PageViews, present bool) (PageKey, PageViews, bool) {
			return PageKey{Path: w.Key, WindowStart: w.Start.Time()}, v, present
		}).
		With(serde.JSON[PageKey](), serde.JSON[PageViews]()).
		To(pageViewsTopic)

	hits.GroupBy("by-visitor", func(_ string, h Hit) string { return h.Visitor }, serde.String).
		WindowedBySession(window.Session(30*time.Minute).Grace(grace)).
		Count("visits").
		ToStream().
		Map(func(w window.Windowed[string], n int64, present bool) (VisitKey, Visit, bool) {
			return VisitKey{Visitor: w.Key, Start: w.Start.Time(), End: w.Last().Time()}, Visit{Hits: n}, present
		}).
		With(serde.JSON[VisitKey](), serde.JSON[Visit]()).
		To(visitsTopic)

	return b.Build()
}

// Handlers are the job's error handlers: a line that does not parse goes to the dead letters, and everything else that goes
// wrong ends the job.
func Handlers() streams.Handlers {
	return streams.Handlers{Processing: streams.Always(streams.DeadLetter(deadTopic))}
}

// isPageView tells whether a hit is a page shown to a person: a GET that succeeded (or was still fresh in the browser), of
// something that is not part of a page, by something that does not say it is a robot.
func isPageView(h Hit) bool {
	ok := h.Status >= 200 && h.Status < 300 || h.Status == 304
	return h.Method == "GET" && ok && !isAsset(h.Path) && !isBot(h.Agent)
}

func isAsset(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".css", ".gif", ".ico", ".jpeg", ".jpg", ".js", ".map", ".png", ".svg", ".swf", ".ttf", ".woff":
		return true
	}
	return p == "/robots.txt"
}

func isBot(agent string) bool {
	agent = strings.ToLower(agent)
	for _, mark := range []string{"bot", "crawler", "spider", "slurp", "archiver", "feed", "rss", "http://", "https://"} {
		if strings.Contains(agent, mark) {
			return true
		}
	}
	return false
}
