package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

const interval = 5 * time.Second

// Samples records a process's memory and goroutines over time.
type Samples struct {
	// Dir is the folder for samples.tsv, and for heap profiles at the beginning and the end.
	Dir string
	// Size returns the current size of the configuration, in any unit; nil means a constant size.
	Size func() float64

	at                    []float64 // hours
	heap, goroutines, rss []float64 // live heap in bytes; number of goroutines; resident bytes without files
	size, endpoints       []float64 // size of the configuration; number of endpoints
}

// Len returns the number of samples.
func (s *Samples) Len() int { return len(s.at) }

// Take records samples of a process of this machine until ctx ends. socket is the path of api.sock
// in the process's state folder.
func (s *Samples) Take(ctx context.Context, pid int, socket string) error {
	client := &http.Client{Timeout: interval,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	err := s.profile(ctx, client, 0)
	if err == nil {
		err = s.take(ctx, pid, client)
	}
	if err == nil {
		err = s.profile(context.WithoutCancel(ctx), client, 1)
	}
	return errors.Join(err, s.keep())
}

func (s *Samples) profile(ctx context.Context, client *http.Client, n int) error {
	file, err := os.Create(filepath.Join(s.Dir, fmt.Sprintf("heap-%d.pb.gz", n)))
	if err != nil {
		return err
	}
	return errors.Join(fetch(ctx, client, "/debug/pprof/heap?gc=1", file), file.Close())
}

func (s *Samples) keep() error {
	file, err := os.Create(filepath.Join(s.Dir, "samples.tsv"))
	if err != nil {
		return err
	}
	return errors.Join(s.write(file), file.Close())
}

func (s *Samples) take(ctx context.Context, pid int, client *http.Client) error {
	from := time.Now()
	var last error
	for {
		sample, err := live(ctx, client)
		rss, rssErr := process.Resident(pid, "RssAnon") // without pages of files
		if rssErr != nil {
			return fmt.Errorf("process %d: %w", pid, rssErr)
		}
		if err == nil {
			s.at = append(s.at, time.Since(from).Hours())
			s.heap, s.goroutines, s.rss = append(s.heap, sample.heap), append(s.goroutines, sample.goroutines),
				append(s.rss, float64(rss))
			s.size, s.endpoints = append(s.size, s.sized()), append(s.endpoints, sample.endpoints)
		} else if ctx.Err() == nil {
			last = err // expected while the process is frozen
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

func (s *Samples) write(out io.Writer) error {
	_, err := fmt.Fprintln(out, "hours\theap\tgoroutines\trss\tsize\tendpoints")
	for i := range s.at {
		if err == nil {
			_, err = fmt.Fprintf(out, "%.5f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n", s.at[i], s.heap[i], s.goroutines[i],
				s.rss[i], s.size[i], s.endpoints[i])
		}
	}
	return err
}

type needs struct{ heap, goroutines, endpoints float64 }

// live reads /metrics, because a heap profile would itself use memory. The live heap is half of the
// heap size that starts the next collection.
func live(ctx context.Context, client *http.Client) (sample needs, err error) {
	add := func(into *float64, line, name string) {
		if text, ok := strings.CutPrefix(line, name); ok {
			value, _ := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
			*into += value
		}
	}
	var page bytes.Buffer
	if err := fetch(ctx, client, "/metrics", &page); err != nil {
		return sample, err
	}
	for line := range strings.Lines(page.String()) {
		line = strings.TrimSuffix(line, "\n")
		add(&sample.heap, line, "go_memstats_next_gc_bytes ")
		add(&sample.goroutines, line, "go_goroutines ")
		add(&sample.endpoints, line, "penstock_picker_endpoints{")
	}
	if sample.heap /= 2; sample.heap == 0 || sample.goroutines == 0 {
		err = errors.New("its metrics have no go_memstats_next_gc_bytes, or no go_goroutines")
	}
	return sample, err
}

func fetch(ctx context.Context, client *http.Client, path string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	_, err = io.Copy(out, io.LimitReader(resp.Body, 64<<20))
	return err
}
