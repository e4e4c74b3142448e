package external

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// The circuit breaker opens after this number of failures in a row. For leftOut, Do makes no
	// call; then one call tries again.
	failures = 5
	leftOut  = 2 * time.Second
	maxIdle  = 64
)

// PeerConfig configures a Peer. URL is required.
type PeerConfig struct {
	Name    string
	URL     string        // http://HOST:PORT or https://HOST:PORT
	Timeout time.Duration // of a call; default 300 ms
	Release string        // of this program; default Release()
}

// Peer calls another program, which may be absent, slow or of another release.
type Peer struct {
	cfg     PeerConfig
	base    string
	client  *http.Client
	breaker *gobreaker.CircuitBreaker[*Response]
}

// NewPeer returns a Peer, or an error if cfg.URL is invalid.
func NewPeer(cfg PeerConfig) (*Peer, error) {
	at, err := url.Parse(cfg.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil ||
		at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("%s: %q must have the form http://HOST:PORT or https://HOST:PORT", cfg.Name, cfg.URL)
	}
	cfg.Timeout, cfg.Release = cmp.Or(cfg.Timeout, 300*time.Millisecond), cmp.Or(cfg.Release, Release())
	p := &Peer{cfg: cfg, base: strings.TrimSuffix(at.String(), "/")}
	p.client = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, DisableCompression: true,
			MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	p.breaker = gobreaker.NewCircuitBreaker[*Response](gobreaker.Settings{
		MaxRequests: 1, Timeout: leftOut,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	})
	return p, nil
}

// Call is a request to a Peer.
type Call struct {
	Method, Path string
	Body         []byte
	TraceParent  string // W3C; "" for none
	Limit        int64  // of the response, in bytes
}

// Response is a Peer's response.
type Response struct {
	Status int
	Body   []byte
}

// Do calls the peer. It returns an error for responses from another minor release, and for statuses
// from 500 on, except 503.
func (p *Peer) Do(ctx context.Context, c Call) (*Response, error) {
	r, err := p.breaker.Execute(func() (*Response, error) { return p.do(ctx, c) })
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		err = fmt.Errorf("it failed %d times in a row and is not called for %v", failures, leftOut)
	}
	return nil, fmt.Errorf("%s %s: %w", p.cfg.Name, p.base, err)
}

func (p *Peer) do(ctx context.Context, c Call) (*Response, error) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, c.Method, p.base+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("content-type", "application/json")
	if c.TraceParent != "" {
		request.Header.Set("traceparent", c.TraceParent)
	}
	response, err := p.client.Do(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && limited.Err() != nil:
		return nil, fmt.Errorf("no answer in %v", p.cfg.Timeout)
	case err != nil:
		return nil, unwrapped(err)
	}
	defer response.Body.Close()
	if theirs := response.Header.Get(VersionHeader); !compatible(p.cfg.Release, theirs) {
		return nil,
			fmt.Errorf("it is of release %.40s and this program of %s: run both from one release of the chart", theirs,
				p.cfg.Release)
	}
	// 503 means that the router has no worker yet.
	if response.StatusCode >= 500 && response.StatusCode != http.StatusServiceUnavailable {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, c.Limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > c.Limit {
		return nil, fmt.Errorf("the answer has more than %d bytes", c.Limit)
	}
	return &Response{Status: response.StatusCode, Body: body}, nil
}

func unwrapped(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
