package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// interval is the time between two samples of a process.
const interval = 5 * time.Second

// Samples are what a process needs over time. The zero value is ready.
type Samples struct {
	// Size returns how large the process's configuration is at present, in any unit; nil: it stays the same. What a process needs follows
	// it, and so would be taken for growth.
	Size func() float64

	at                    []float64 // hours
	heap, goroutines, rss []float64 // live bytes after a collection; number; resident bytes
	size                  []float64
}

// Len is the number of samples.
func (s *Samples) Len() int { return len(s.at) }

// Take samples a process of this machine, through the socket api.sock in its state folder, until ctx ends.
func (s *Samples) Take(ctx context.Context, pid int, socket string) error {
	from := time.Now()
	client := &http.Client{Timeout: interval, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	var last error
	for {
		heap, goroutines, err := live(ctx, client)
		rss, rssErr := process.RSS(pid)
		if rssErr != nil {
			return fmt.Errorf("process %d: %w", pid, rssErr)
		}
		if err == nil {
			s.at = append(s.at, time.Since(from).Hours())
			s.heap, s.goroutines, s.rss = append(s.heap, heap), append(s.goroutines, goroutines), append(s.rss, float64(rss))
			s.size = append(s.size, s.sized())
		} else if ctx.Err() == nil {
			last = err // a frozen process does not answer
		}
		select {
		case <-time.After(interval):
			continue
		case <-ctx.Done():
		}
		if len(s.at) < 2 {
			return errors.Join(fmt.Errorf("process %d was sampled %d times", pid, len(s.at)), last)
		}
		return nil
	}
}

func (s *Samples) sized() float64 {
	if s.Size == nil {
		return 0
	}
	return s.Size()
}

// Write writes the samples as tab-separated values, with a heading.
func (s *Samples) Write(out io.Writer) error {
	_, err := fmt.Fprintln(out, "hours\theap\tgoroutines\trss\tsize")
	for i := range s.at {
		if err == nil {
			_, err = fmt.Fprintf(out, "%.5f\t%.0f\t%.0f\t%.0f\t%.0f\n", s.at[i], s.heap[i], s.goroutines[i], s.rss[i], s.size[i])
		}
	}
	return err
}

// live reads a process's heap right after a collection, and its number of goroutines. The text form of the heap profile has the heap
// from before the profile was written: the writer allocates more with each place that has ever allocated, so that the heap would seem
// to grow for hours.
func live(ctx context.Context, client *http.Client) (heap, goroutines float64, err error) {
	value := func(path, name string, into *float64) error {
		err := fetch(ctx, client, path, func(line string) {
			if text, ok := strings.CutPrefix(line, name); ok {
				*into, _ = strconv.ParseFloat(text, 64)
			}
		})
		if err == nil && *into == 0 {
			err = fmt.Errorf("%s has no line that begins with %q", path, name)
		}
		return err
	}
	if err := value("/debug/pprof/heap?gc=1&debug=1", "# HeapAlloc = ", &heap); err != nil {
		return 0, 0, err
	}
	return heap, goroutines, value("/metrics", "go_goroutines ", &goroutines)
}

func fetch(ctx context.Context, client *http.Client, path string, each func(line string)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 64<<20))
	lines.Buffer(nil, 16<<20) // a profile has long lines
	for lines.Scan() {
		each(lines.Text())
	}
	return lines.Err()
}
