package processes

import (
	"context"
	"net"
	"net/http"
	"time"
)

const probeTimeout = 5 * time.Second

// prober requests readiness URLs without proxies, redirects and kept connections.
var prober = &http.Client{
	Timeout: probeTimeout,
	Transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: probeTimeout}).DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 16 << 10,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// confirmations is how many checks in a row must see another listener, because one check may fall
// between two listeners of a server.
const confirmations = 2

// probing closes ready once the URL answers 200 and no other process listens there. It closes taken
// if another process listens there: while an engine loads, such a process may answer.
func probing(ctx context.Context, url string, every time.Duration, listener func() owner) (
	ready, taken <-chan struct{},
) {
	answered, lost := make(chan struct{}), make(chan struct{})
	if url == "" {
		close(answered)
		return answered, lost
	}
	go func() {
		wait, seen := min(20*time.Millisecond, every), 0
		for {
			switch {
			case !probe(ctx, url):
				seen = 0
			case listener() != others:
				close(answered)
				return
			default:
				if seen++; seen == confirmations {
					close(lost)
					return
				}
			}
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			wait = min(2*wait, every)
		}
	}()
	return answered, lost
}

func probe(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := prober.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
