package settings

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// reference is the page about all settings.
func reference(b *Broker) string {
	var page strings.Builder
	page.WriteString("# Settings\n\nMade from the tables in `broker/internal/settings`; `UPDATE_DOCS=1 go test ./broker/internal/settings` writes it anew.\n" +
		"Names, types and units are Apache Kafka's, except where the text says that a setting is one of Millrace. A setting that is not listed is refused.\n")
	section := func(title, intro string, of Scope) {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| setting | default | valid | meaning |\n|---|---|---|---|\n", title, intro)
		for _, d := range b.Definitions(of) {
			standard := "none"
			if d.HasDefault {
				standard = "`" + d.Default + "`"
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", d.Name, standard, d.Valid, d.Doc)
		}
	}
	section("Topics", "Set when a topic is made. A topic that does not set one has the broker's value.", OfTopic)
	section("Brokers", "Set in the broker's configuration.", OfBroker)
	return page.String()
}

func TestReferencePageIsUpToDate(t *testing.T) {
	const file = "../../../docs/settings.md"
	want := reference(newBroker(t, nil))
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: run UPDATE_DOCS=1 go test ./broker/internal/settings", file)
	}
}
