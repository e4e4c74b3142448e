package engines

import (
	"context"
	"net"
	"net/http"
	"time"
)

const probeTimeout = 5 * time.Second

// prober requests the readiness URLs. It uses no proxy, follows no redirect and keeps no
// connection.
var prober = &http.Client{
	Timeout: probeTimeout,
	Transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: probeTimeout}).DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 16 << 10,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// confirmations is how often in a row another listener is seen before the engine is stopped: one
// look may fall between two listeners of a server.
const confirmations = 2

// probing closes ready once the URL answers 200 and no other process listens there, or taken once
// one does. An answer alone does not show that the engine gave it: while an engine loads, another
// process may take its port.
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
