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
	// watchedHost has an AccessPolicy with revoke: Immediately, and routes to pool chat.
	watchedHost = "watched.example"
)

func watchedObjects() string {
	return gateRoute("watched", watchedHost, byPath("")) +
		accessPolicy("watched", "{kind: HTTPRoute, name: watched}", ", revoke: Immediately")
}

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

// slowObjects gate slowHost also with revoke: Immediately.
func slowObjects(port int) string {
	return strings.ReplaceAll(gateRoute("slow", slowHost, byPath("")), "name: chat}", "name: slow}") +
		accessPolicy("slow", "{kind: HTTPRoute, name: slow}", ", revoke: Immediately") +
		poolObjects("slow", []int{port})
}

func (g *gates) revokeEnds(ctx context.Context, out report) error {
	ends := map[bool][]time.Duration{}
	for i := range 60 {
		http2 := i%2 == 0
		took, err := g.revokeEnd(ctx, http2)
		if err != nil {
			return err
		}
		ends[http2] = append(ends[http2], took)
	}
	out("revoke_ends", "", milliseconds(median(ends[true])))
	out("revoke_ends", "slowest", milliseconds(slices.Max(ends[true])))
	out("revoke_ends", "http1", milliseconds(median(ends[false])))
	return nil
}

func (g *gates) revokeEnd(ctx context.Context, http2 bool) (time.Duration, error) {
	key, hash := newKey()
	if err := g.write("streaming.yaml", keyObject("streaming", hash, "")); err != nil {
		return 0, err
	}
	if err := g.decided(ctx, key, http.StatusOK); err != nil {
		return 0, err
	}
	body, err := g.stream(ctx, key, http2)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = g.write("streaming.yaml", keyObject("streaming", hash, ", disabled: true"))
	if err == nil {
		if _, cut := io.Copy(io.Discard, body); cut == nil || time.Since(begin) > timeout {
			err = fmt.Errorf("the stream ends with %v after %s", cut, time.Since(begin))
		}
	}
	return time.Since(begin), errors.Join(err, body.Close())
}

func (g *gates) stream(ctx context.Context, key string, http2 bool) (io.ReadCloser, error) {
	req, err := jsonRequest(ctx, g.url+chatPath, sameChat)
	if err != nil {
		return nil, err
	}
	req.Host = slowHost
	req.Header.Set("Authorization", "Bearer "+key)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	client := http.Client{Timeout: timeout, Transport: transport}
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
