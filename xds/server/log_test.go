package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) warnings(t *testing.T) (out []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := json.NewDecoder(bytes.NewReader(l.b.Bytes())); d.More(); {
		line := map[string]any{}
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line["level"] != slog.LevelInfo.String() {
			delete(line, "time")
			out = append(out, line)
		}
	}
	return out
}

// logged runs do and returns the only warning in the log.
func logged(t *testing.T, authenticate server.Authenticate, do func(*xdstest.Control)) map[string]any {
	t.Helper()
	log := &lines{}
	c := xdstest.Serve(t, server.Config{Authenticate: authenticate, Log: slog.New(slog.NewJSONHandler(log, nil))})
	c.Commit([]*resource.Resource{xdstest.Endpoints(t, "cluster-0", 1)})
	do(c)
	poll.Until(t, "a line in the log", func() bool { return len(log.warnings(t)) > 0 })
	all := log.warnings(t)
	if len(all) != 1 {
		t.Errorf("%d lines: %v, want 1", len(all), all)
	}
	return all[0]
}

func expect(t *testing.T, line map[string]any, want map[string]any) {
	t.Helper()
	if peer, ok := line["peer"].(string); ok {
		if peer != "127.0.0.1" {
			t.Errorf("peer %q, want 127.0.0.1, the address of the connection", peer)
		}
		delete(line, "peer")
		line["has peer"] = true
	}
	if len(line) != len(want) {
		t.Errorf("logged %v, want %v", line, want)
	}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("%s is %v, want %v", k, line[k], v)
		}
	}
}

func TestNACK_LogLineNamesResourceAndDetail(t *testing.T) {
	r := xdstest.Endpoints(t, "cluster-0", 1)
	line := logged(t, nil, func(c *xdstest.Control) {
		p := subscribe(t, dial(t, c), xdstest.Gateway, "envoy-1")
		p.send(&discoveryv3.DeltaDiscoveryRequest{
			ResponseNonce: p.receive().GetNonce(), ErrorDetail: &statuspb.Status{Message: "malformed IP address: x"},
		})
	})
	expect(t, line, map[string]any{
		"level": "WARN", "msg": "NACK received", "gateway": xdstest.Gateway, "node": "envoy-1",
		"type": "endpoints", "name": "cluster-0", "version": r.Version, "detail": "malformed IP address: x",
	})
}

func TestAuthenticate_LogLineOfDeniedConnectionNamesPeerAndReason(t *testing.T) {
	want := map[string]any{
		"level": "WARN", "msg": "connection denied", "node": "envoy-1", "cluster": xdstest.Gateway,
		"reason": "the token has expired", "has peer": true,
	}
	expired := errors.New("the token has expired")
	t.Run("when it connects", func(t *testing.T) {
		deny := as(proxy{gateway: func(*corev3.Node) (string, error) { return "", expired }})
		expect(t, logged(t, deny, func(c *xdstest.Control) {
			p := subscribe(t, dial(t, c), xdstest.Gateway, "envoy-1")
			if _, err := p.stream.Recv(); err == nil {
				t.Error("it got a response")
			}
		}), want)
	})
	t.Run("when its permission ends", func(t *testing.T) {
		var mu sync.Mutex
		var err error
		allow := as(
			proxy{permitted: func() (time.Time, error) { mu.Lock(); defer mu.Unlock(); return time.Time{}, err }})
		expect(t, logged(t, allow, func(c *xdstest.Control) {
			p := subscribe(t, dial(t, c), xdstest.Gateway, "envoy-1")
			p.next()
			mu.Lock()
			err = expired
			mu.Unlock()
			c.Server.Recheck()
		}), want)
	})
}
