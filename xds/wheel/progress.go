package wheel

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

const width = 30

type progress struct {
	body       io.Reader
	out        io.Writer
	terminal   bool
	done, size int64 // size is negative if it is unknown
	shown      int64
	advanced   func()
}

func newProgress(cfg Config, response *http.Response) *progress {
	p := &progress{body: response.Body, out: cfg.Progress, terminal: cfg.Terminal, size: response.ContentLength}
	p.shown = -1
	if !p.terminal {
		_, _ = fmt.Fprintf(p.out, "downloading %s\n", cfg.Wheel.Name)
	}
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	if n > 0 {
		p.advanced()
	}
	p.done += int64(n)
	p.show()
	return n, err
}

func (p *progress) show() {
	if !p.terminal {
		return
	}
	if p.size <= 0 {
		if now := p.done >> 20; now != p.shown {
			p.shown = now
			_, _ = fmt.Fprintf(p.out, "\r%d MiB", now)
		}
		return
	}
	if now := p.done * width / p.size; now != p.shown {
		p.shown = now
		bar := strings.Repeat("#", int(now)) + strings.Repeat(" ", int(width-now))
		_, _ = fmt.Fprintf(p.out, "\r[%s] %d of %d MiB", bar, p.done>>20, p.size>>20)
	}
}

func (p *progress) end() {
	if p.terminal {
		_, _ = fmt.Fprintln(p.out)
	}
}
