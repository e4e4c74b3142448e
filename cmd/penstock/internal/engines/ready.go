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

// probing closes the channel once the URL answers 200.
func probing(ctx context.Context, url string, every time.Duration) <-chan struct{} {
	ready := make(chan struct{})
	if url == "" {
		close(ready)
		return ready
	}
	go func() {
		wait := min(20*time.Millisecond, every)
		for !probe(ctx, url) {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			wait = min(2*wait, every)
		}
		close(ready)
	}()
	return ready
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
