package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far long work has come: a bar on a terminal, and a line
// now and then elsewhere. It is for one goroutine.
type progress struct {
	title string
	err   io.Writer
	bar   *progressbar.ProgressBar // nil without a terminal
	// said is the last percentage that was printed as a line.
	said int
}

// progressStep is how many percent pass between two lines.
const progressStep = 25

func (s *session) newProgress(title string) *progress {
	p := &progress{title: title, err: s.err, said: -progressStep}
	if s.errIsTerminal() {
		p.bar = progressbar.NewOptions64(1, progressbar.OptionSetWriter(s.err), progressbar.OptionSetDescription(title),
			progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
	}
	return p
}

// set shows that done of total bytes are done; a total of 0 is not known yet.
func (p *progress) set(done, total int64) {
	if total <= 0 {
		return
	}
	if p.bar != nil {
		p.bar.ChangeMax64(total)
		_ = p.bar.Set64(done) // a bar that cannot be drawn harms nobody
		return
	}
	if percent := int(done * 100 / total); percent >= p.said+progressStep {
		p.said = percent - percent%progressStep
		fmt.Fprintf(p.err, "%s: %d%% of %d bytes\n", p.title, percent, total)
	}
}

// end leaves the bar as it is and goes to a new line.
func (p *progress) end() {
	if p.bar != nil {
		fmt.Fprintln(p.err)
	}
}
