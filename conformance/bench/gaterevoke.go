package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"
)

const (
	slowHost   = "slow.example"
	slowEvents = 20 * time.Millisecond
	// watchedHost has a policy with revoke: Immediately; its requests go to the pool chat.
	watchedHost = "watched.example"
)

func watchedObjects() string {
	return gateRoute("watched", watchedHost, byPath("")) +
		accessPolicy("watched", "{kind: HTTPRoute, name: watched}", ", revoke: Immediately")
}

// slowServer streams events until the client leaves.
func slowServer() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("content-type", "text/event-stream")
		for pause(r.Context(), slowEvents) == nil {
			if _, err := io.WriteString(w, "data: {}\n\n"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
}

// slowObjects gate the host slow.example twice: by the Gateway's policy, and by one with revoke:
// Immediately.
func slowObjects(port int) string {
	return strings.ReplaceAll(gateRoute("slow", slowHost, byPath("")), "name: chat}", "name: slow}") +
		accessPolicy("slow", "{kind: HTTPRoute, name: slow}", ", revoke: Immediately") +
		poolObjects("slow", []int{port})
}

// revokeEnds measures how long the stream of a key goes on after the key is revoked.
func (g *gates) revokeEnds(ctx context.Context, out report) error {
	var ends []time.Duration
	for range 30 {
		key, hash := newKey()
		if err := g.write("streaming.yaml", keyObject("streaming", hash, "")); err != nil {
			return err
		}
		if err := g.decided(ctx, key, http.StatusOK); err != nil {
			return err
		}
		body, err := g.stream(ctx, key)
		if err != nil {
			return err
		}
		begin := time.Now()
		err = g.write("streaming.yaml", keyObject("streaming", hash, ", disabled: true"))
		if err == nil {
			if _, cut := io.Copy(io.Discard, body); cut == nil || time.Since(begin) > timeout {
				err = fmt.Errorf("the stream ends with %v after %s", cut, time.Since(begin))
			}
		}
		ends = append(ends, time.Since(begin))
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	out("revoke_ends", "", milliseconds(median(ends)))
	out("revoke_ends", "slowest", milliseconds(slices.Max(ends)))
	return nil
}

// stream returns the body of a response whose first bytes have arrived.
func (g *gates) stream(ctx context.Context, key string) (io.ReadCloser, error) {
	req, err := jsonRequest(ctx, g.url+chatPath, sameChat)
	if err != nil {
		return nil, err
	}
	req.Host = slowHost
	req.Header.Set("Authorization", "Bearer "+key)
	client := http.Client{Timeout: timeout}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(resp.Status), resp.Body.Close())
	}
	_, err = io.ReadFull(resp.Body, make([]byte, 1))
	return resp.Body, err
}
