package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	eventEvery = 100 * time.Millisecond
	// after a change, an answer may follow the old configuration for this time
	settled        = 10 * time.Second
	requestTimeout = 20 * time.Second
	smallBody      = 200
	largeBody      = 1 << 20
	largeOne       = 25 // one of this many plain requests has a large body
	freshTransport = 1
)

type target struct {
	host string
	port int
	tls  bool

	mu      sync.Mutex
	fleets  map[string]time.Time // end of the time in which a fleet may answer, by fleet; zero means no end
	asked   bool
	waiting int // requests without response headers
}

// expect sets the fleets that answer. The previous fleets may still answer for the duration
// settled.
func (t *target) expect(fleets []string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f, until := range t.fleets {
		if until.IsZero() {
			t.fleets[f] = now.Add(settled)
		}
	}
	for _, f := range fleets {
		t.fleets[f] = time.Time{}
	}
}

func (t *target) may(fleet string, sent time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.fleets[fleet]
	return ok && (until.IsZero() || sent.Before(until))
}

func (t *target) strict(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f, until := range t.fleets {
		if !until.IsZero() && until.After(now) {
			t.fleets[f] = now
		}
	}
}

// begin returns false if the host must get no more requests.
func (t *target) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked {
		t.waiting++
	}
	return t.asked
}

func (t *target) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
}

// quiet stops new requests to the host. It reports whether all sent requests have response headers.
func (t *target) quiet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = false
	return t.waiting == 0
}

func (t *target) url(id uint64, events int) string {
	scheme := "http"
	if t.tls {
		scheme = "https"
	}
	u := fmt.Sprintf("%s://%s:%d/v1/chat/completions?id=%d", scheme, t.host, t.port, id)
	if events > 0 {
		u += fmt.Sprintf("&events=%d", events)
	}
	return u
}

type failure struct {
	At    time.Time
	Step  int // the last step before the failure
	ID    uint64
	Host  string
	What  string // "plain", "large" or "stream"
	Took  time.Duration
	Cause string
}

func (f failure) String() string {
	return fmt.Sprintf("%s request %d to %s (%s, after %s): %s", f.At.Format("15:04:05.000"), f.ID, f.Host, f.What,
		f.Took.Round(time.Millisecond), f.Cause)
}

type clients struct {
	rate, streams int
	events        int
	transports    []*http.Transport // kept-alive connections; one connection for each request; HTTP/2 over TLS
	body          []byte
	failed        func(failure)

	mu      sync.Mutex
	targets []*target
	turn    int

	ids       atomic.Uint64
	sent      atomic.Int64
	streamed  atomic.Int64
	unsettled sync.WaitGroup
}

func newClients(rate, streams, events int, roots *x509.CertPool, failed func(failure)) *clients {
	c := &clients{rate: rate, streams: streams, events: events, failed: failed,
		body: []byte(strings.Repeat("all work and no play ", largeBody/21))}
	for i := range 3 {
		// Idle connections close before the proxy closes them.
		t := &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: 3 * time.Second,
			DisableKeepAlives: i == freshTransport, TLSClientConfig: &tls.Config{RootCAs: roots}}
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(i < 2)
		t.Protocols.SetHTTP2(i == 2)
		if i == 2 {
			t.Protocols.SetUnencryptedHTTP2(true)
		}
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		}
		c.transports = append(c.transports, t)
	}
	return c
}

func (c *clients) add(t *target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = append(c.targets, t)
}

func (c *clients) all() []*target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*target(nil), c.targets...)
}

func (c *clients) choose() *target {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.targets {
		c.turn++
		if t := c.targets[c.turn%len(c.targets)]; t.begin() {
			return t
		}
	}
	return nil
}

func (c *clients) run(ctx context.Context) {
	for range c.streams {
		c.unsettled.Go(func() {
			pause := time.NewTicker(eventEvery) // limits the rate if all requests fail at once
			defer pause.Stop()
			for ctx.Err() == nil {
				if t := c.choose(); t != nil {
					c.streamed.Add(1)
					c.ask(t, "stream", smallBody, 5+rand.IntN(c.events-4))
				}
				<-pause.C
			}
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(c.rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			c.unsettled.Wait()
			for _, t := range c.transports {
				t.CloseIdleConnections()
			}
			return
		case <-tick.C:
		}
		t := c.choose()
		if t == nil {
			continue
		}
		c.unsettled.Go(func() {
			if n%largeOne == 0 {
				c.ask(t, "large", largeBody/(1+n/largeOne%4), 0)
			} else {
				c.ask(t, "plain", smallBody, 0)
			}
		})
	}
}

func (c *clients) ask(t *target, what string, size, events int) {
	id, began := c.ids.Add(1), time.Now()
	c.sent.Add(1)
	err := c.try(t, id, what, size, events, began)
	if err != nil {
		c.failed(failure{At: time.Now(), ID: id, Host: t.host, What: what, Took: time.Since(began), Cause: err.Error()})
	}
}

func (c *clients) try(t *target, id uint64, what string, size, events int, began time.Time) error {
	body := []byte(fmt.Sprintf(`{"model": "llama", "stream": %t, "prompt": "%s"}`, what == "stream", c.body[:size]))
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout+time.Duration(events)*eventEvery)
	defer cancel()
	headers := sync.OnceFunc(t.answered)
	defer headers()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url(id, events), strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := c.transports[int(id)%len(c.transports)].RoundTrip(req)
	headers()
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	var got answer
	if what != "stream" {
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			return fmt.Errorf("cut answer: %w", err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		got, err = readStream(resp.Body, events)
	}
	if err != nil {
		return err
	}
	want := answer{ID: fmt.Sprint(id), Host: fmt.Sprintf("%s:%d", t.host, t.port), Fleet: got.Fleet, Name: got.Name,
		Size: len(body), Sum: crc32.ChecksumIEEE(body)}
	if got != want {
		return fmt.Errorf("wrong answer %+v, want %+v", got, want)
	}
	if !t.may(got.Fleet, began) {
		return fmt.Errorf("answered by %s, which is not a backend of this host", got.Name)
	}
	return nil
}

func readStream(r io.Reader, events int) (got answer, err error) {
	lines := bufio.NewScanner(r)
	seen := 0
	for lines.Scan() {
		event, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case event == "[DONE]" && seen == events+1:
			_, err := io.Copy(io.Discard, r)
			return got, err
		case seen == 0:
			if err := json.Unmarshal([]byte(event), &got); err != nil {
				return got, fmt.Errorf("first event: %w", err)
			}
			seen++
		case event != fmt.Sprint(seen-1):
			return got, fmt.Errorf("event %q after %d", event, seen)
		default:
			seen++
		}
	}
	if err := lines.Err(); err != nil {
		return got, fmt.Errorf("stream cut after %d of %d events: %w", seen, events+1, err)
	}
	return got, fmt.Errorf("stream cut after %d of %d events: %w", seen, events+1, io.ErrUnexpectedEOF)
}
