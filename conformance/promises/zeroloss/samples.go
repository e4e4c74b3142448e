package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sampleInterval is the time between two samples of a process.
const sampleInterval = 5 * time.Second

// samples are what a process needs over time.
type samples struct {
	at                    []float64 // hours
	heap, goroutines, rss []float64 // live bytes after a collection; number; resident bytes
}

// take samples a control plane from a moment on, until ctx ends. A frozen process does not answer, and has no sample then.
func (s *samples) take(ctx context.Context, p *plane, from time.Time) error {
	if wait(ctx, time.Until(from)) != nil {
		return nil // it is over
	}
	socket := filepath.Join(p.state, "api.sock")
	client := &http.Client{Timeout: sampleInterval, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for {
		heap, goroutines, err := live(ctx, client)
		rss, rssErr := p.RSS()
		if rssErr != nil {
			return rssErr
		}
		if err == nil {
			s.at = append(s.at, time.Since(from).Hours())
			s.heap, s.goroutines, s.rss = append(s.heap, heap), append(s.goroutines, goroutines), append(s.rss, float64(rss))
		}
		if wait(ctx, sampleInterval) != nil {
			break
		}
	}
	if len(s.at) < 2 {
		return fmt.Errorf("%s was sampled %d times", p.name, len(s.at))
	}
	return nil
}

// live reads a process's heap right after a collection, and its number of goroutines.
func live(ctx context.Context, client *http.Client) (heap, goroutines float64, err error) {
	if err := fetch(ctx, client, "/debug/pprof/heap?gc=1", func(string) {}); err != nil {
		return 0, 0, err
	}
	err = fetch(ctx, client, "/metrics", func(line string) {
		name, value, _ := strings.Cut(line, " ")
		switch name {
		case "go_memstats_heap_alloc_bytes":
			heap, _ = strconv.ParseFloat(value, 64)
		case "go_goroutines":
			goroutines, _ = strconv.ParseFloat(value, 64)
		}
	})
	if err == nil && (heap == 0 || goroutines == 0) {
		err = errors.New("/metrics lacks the heap or the goroutines")
	}
	return heap, goroutines, err
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
	lines.Buffer(nil, 16<<20) // a profile is binary
	for lines.Scan() {
		each(lines.Text())
	}
	return lines.Err()
}

// slope is the growth of values over time by a linear fit, and its standard error, both in % of the mean an hour.
func slope(hours, values []float64) (percent, deviation float64) {
	n := float64(len(hours))
	var meanX, meanY float64
	for i := range hours {
		meanX, meanY = meanX+hours[i]/n, meanY+values[i]/n
	}
	var xx, xy, rest float64
	for i := range hours {
		xx += (hours[i] - meanX) * (hours[i] - meanX)
		xy += (hours[i] - meanX) * (values[i] - meanY)
	}
	if xx == 0 || meanY == 0 || n < 3 {
		return 0, math.Inf(1)
	}
	b := xy / xx
	for i := range hours {
		d := values[i] - meanY - b*(hours[i]-meanX)
		rest += d * d
	}
	return 100 * b / meanY, 100 * math.Sqrt(rest/(n-2)/xx) / meanY
}

// Limits of soak_slope, in % an hour.
const (
	maxLiveSlope = 2
	maxRSSSlope  = 10
)

// growth returns the figures of a soak, and an error if the memory or the goroutines grow beyond the limits with a certainty
// of two standard errors.
func (s *samples) growth() (figures []line, err error) {
	for _, x := range []struct {
		name   string
		values []float64
		limit  int
	}{{"heap", s.heap, maxLiveSlope}, {"goroutines", s.goroutines, maxLiveSlope}, {"rss", s.rss, maxRSSSlope}} {
		percent, deviation := slope(s.at, x.values)
		figures = append(figures, line{"soak_slope." + x.name, percent, "%/h", &x.limit}, line{"soak_slope." + x.name + "_error", deviation, "%/h", nil})
		if percent-2*deviation > float64(x.limit) {
			err = errors.Join(err, fmt.Errorf("%s grows by %.1f %% an hour (standard error %.1f), limit %d", x.name, percent, deviation, x.limit))
		}
	}
	return figures, err
}
