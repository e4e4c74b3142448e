package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/lab/retry"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/authz"
)

func measureGateKeys(ctx context.Context, c config, out report) error {
	_, ports, stop, err := startServers(c, 2)
	if err != nil {
		return err
	}
	defer stop()
	slow := slowServer()
	defer slow.Close()
	g, err := startGates(ctx, c, 2, gatedObjects(ports)+slowObjects(slow.Listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		return err
	}
	defer g.close()
	for _, measure := range []func(context.Context, report) error{g.keyInForce, g.revokeEnds, g.keyBytes, g.failed} {
		if err := measure(ctx, out); err != nil {
			return g.explained(err)
		}
	}
	return nil
}

// keyInForce measures when authorization servers deny a disabled key, and when a reader of the
// folder receives it.
func (g *gates) keyInForce(ctx context.Context, out report) error {
	events, stop, err := g.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var forces, seen []time.Duration
	for range 30 {
		key, hash := newKey()
		if err := g.write("changed.yaml", keyObject("changed", hash, "")); err != nil {
			return err
		}
		if err := g.decided(ctx, key, http.StatusOK); err != nil {
			return err
		}
		for len(events) > 0 {
			<-events
		}
		begin := time.Now()
		if err := g.write("changed.yaml", keyObject("changed", hash, ", disabled: true")); err != nil {
			return err
		}
		force, err := g.denied(ctx, key, begin)
		if err != nil {
			return err
		}
		select {
		case at := <-events:
			forces, seen = append(forces, force), append(seen, at.Sub(begin))
		case <-time.After(timeout):
			return errors.New("no event of the changed key")
		}
	}
	out("key_in_force", "", float64(median(forces))/float64(median(seen)))
	out("key_in_force", "denied", milliseconds(median(forces)))
	out("key_in_force", "event", milliseconds(median(seen)))
	return nil
}

// denied returns the time from begin until all authorization servers deny a key, without Envoy.
func (g *gates) denied(ctx context.Context, key string, begin time.Time) (time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	for _, picker := range g.pickers {
		group.Go(func() error { return becomes(ctx, picker, "default/clients", key, true) })
	}
	err := group.Wait()
	return time.Since(begin), err
}

// becomes waits until an authorization server denies a key, or else permits it.
func becomes(ctx context.Context, picker, policy, key string, denied bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient(picker, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	call := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: map[string]string{authz.PoliciesKey: policy, authz.PoolsKey: ""},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: http.MethodPost, HeaderMap: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
				{Key: "x-api-key", RawValue: []byte(key)}}},
		}},
	}}
	return retry.Until(ctx, time.Millisecond, func(ctx context.Context) error {
		answer, err := authv3.NewAuthorizationClient(conn).Check(ctx, call)
		if err == nil && (answer.GetDeniedResponse() == nil) == denied {
			err = fmt.Errorf("the key is denied: %t", !denied)
		}
		return err
	})
}

// watch returns when this process reads changed keys from the folder.
func (g *gates) watch(ctx context.Context) (<-chan time.Time, func(), error) {
	objects, state := store.New(), filepath.Join(filepath.Dir(g.files), "watch")
	reader, err := file.New(file.Config{Paths: []string{g.files}, Store: objects, StateDir: state,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	if err := reader.Load(ctx); err != nil {
		return nil, nil, err
	}
	sub, events := objects.Subscribe(), make(chan time.Time, 1024)
	sub.Pending()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = reader.Run(ctx) })
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-sub.Ready():
			}
			if revisions, _ := sub.Pending(); len(revisions) > 0 {
				events <- time.Now()
			}
		}
	})
	return events, func() { cancel(); running.Wait(); sub.Close() }, nil
}

// keyBytes measures the xDS bytes of keys that are disabled, then replaced by keys with models.
func (g *gates) keyBytes(ctx context.Context, out report) error {
	last, err := g.writeKeys(1, "")
	if err != nil {
		return err
	}
	if err := g.decided(ctx, last, http.StatusOK); err != nil {
		return err
	}
	address, err := g.planes[0].adsAddress(ctx)
	if err != nil {
		return err
	}
	var sent atomic.Int64
	p, err := proxy.Connect(ctx, proxy.Config{Address: address, Node: "bench", Cluster: "default/gw", Follow: true,
		Handle: func(r proxy.Response) { sent.Add(int64(r.Size)) }})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Start(); err != nil {
		return err
	}
	for last := int64(-1); last != sent.Load() || last == 0; { // until no more bytes arrive
		last = sent.Load()
		if err := errors.Join(pause(ctx, rest), p.Err()); err != nil {
			return err
		}
	}
	before := sent.Load()
	for _, more := range []string{", disabled: true", `, models: ["lla*"]`} {
		want := http.StatusForbidden // without byModel, a policy denies keys with models
		if last, err = g.writeKeys(1, more); more == ", disabled: true" {
			want = http.StatusUnauthorized
		}
		if err != nil {
			return err
		}
		if err := g.decided(ctx, last, want); err != nil {
			return err
		}
	}
	out("key_xds_bytes", "", float64(sent.Load()-before))
	before = sent.Load()
	if err := g.write("more.yaml", routeObject("more", byPath("more"))); err != nil {
		return err
	}
	if err := eventually(ctx, func() error {
		if sent.Load() == before {
			return errors.New("a new route sends no bytes, so the figure counts none")
		}
		return p.Err()
	}); err != nil {
		return err
	}
	out("key_xds_bytes", "of_a_route", float64(sent.Load()-before))
	return nil
}

const (
	failedClients = 4
	failedPause   = 10 * time.Millisecond
	failedPhase   = 4 * time.Second
)

func (g *gates) failed(ctx context.Context, out report) error {
	key, hash := newKey()
	if err := g.write("valid.yaml", keyObject("valid", hash, "")); err != nil {
		return err
	}
	if err := g.decided(ctx, key, http.StatusOK); err != nil {
		return err
	}
	calm := g.load(ctx, key)
	err := pause(ctx, 3*failedPhase)
	without, _ := calm()
	if err != nil {
		return err
	}
	faulty := g.load(ctx, key)
	for i := range g.planes {
		if err := g.faults(ctx, i); err != nil {
			faulty()
			return err
		}
	}
	failed, total := faulty()
	out("gate_failed", "", float64(failed))
	out("gate_failed", "of", float64(total))
	out("gate_failed", "without", float64(without))
	return nil
}

func (g *gates) faults(ctx context.Context, i int) error {
	p := g.planes[i]
	p.Signal(syscall.SIGSTOP)
	if err := pause(ctx, failedPhase); err != nil {
		return err
	}
	p.Signal(syscall.SIGCONT)
	if err := pause(ctx, failedPhase); err != nil {
		return err
	}
	p.Signal(syscall.SIGKILL)
	p.stop()
	if err := pause(ctx, failedPhase); err != nil {
		return err
	}
	again, err := g.starts[i]()
	if err != nil {
		return err
	}
	g.planes[i] = again
	return errors.Join(g.inSync(ctx), pause(ctx, failedPhase))
}

func (g *gates) load(ctx context.Context, key string) (end func() (failed, total int64)) {
	var failed, total atomic.Int64
	var clients sync.WaitGroup
	sending, stop := context.WithCancel(ctx)
	for range failedClients {
		clients.Go(func() {
			for pause(sending, failedPause) == nil {
				began := time.Now()
				status, body, err := g.ask(ctx, gatedHost, "", key)
				if total.Add(1); err == nil && status == http.StatusOK {
					continue
				}
				if failed.Add(1) <= 5 {
					fmt.Fprintf(os.Stderr, "bench: a request failed after %s: status %d %s %v\n",
						time.Since(began).Round(time.Millisecond), status, body, err)
				}
			}
		})
	}
	return func() (int64, int64) {
		stop()
		clients.Wait()
		return failed.Load(), total.Load()
	}
}
