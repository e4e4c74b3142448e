package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

// measureEffective measures from a saved file to the first request through a real Envoy that sees
// the change.
func measureEffective(ctx context.Context, c config, out report) error {
	size := world.Routes5000
	var err error
	if size.Port, err = freePort(); err != nil {
		return err
	}
	w, err := world.New(size)
	if err != nil {
		return err
	}
	files, state, remove, err := folder(w.WriteFiles)
	if err != nil {
		return err
	}
	defer remove()
	stop, err := answer(w)
	if err != nil {
		return err
	}
	defer stop()
	if err := os.Setenv("ENVOY", c.envoy); err != nil {
		return err
	}
	p, err := startPlane(c, "up", files, state, "--concurrency", "1")
	if err != nil {
		return err
	}
	defer p.stop()
	const route = 0 // its backend is the one that answers
	client := visitor(size.Port, w.Host(route))
	if err := eventually(ctx, func() error {
		got, err := client.revision(ctx)
		if err == nil && got == "0" {
			return nil
		}
		return errors.Join(fmt.Errorf("revision %q: %w", got, err), p.running())
	}); err != nil {
		return fmt.Errorf("%w; its output:\n%s", err, p.output())
	}
	var times []time.Duration
	for revision := 1; revision <= 31; revision++ {
		took, err := client.effective(ctx, w, files, route, revision)
		if err != nil {
			return errors.Join(err, p.running())
		}
		times = append(times, took)
	}
	out("change_to_effective", "", milliseconds(median(times)))
	slices.Sort(times)
	out("change_to_effective", "p90", milliseconds(times[len(times)*9/10]))
	return nil
}

// effective saves a file and sends requests, one after the other, until one sees the change.
func (v *visit) effective(ctx context.Context, w *world.World, files string, route, revision int) (time.Duration,
	error) {
	if err := w.StageRoutes(files, route, route, revision); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := world.Commit(files, w.RouteFile(route)); err != nil {
		return 0, err
	}
	for {
		got, err := v.revision(ctx)
		if err != nil {
			return 0, err
		}
		if got == fmt.Sprint(revision) {
			return time.Since(start), nil
		}
		if time.Since(start) > timeout {
			return 0, fmt.Errorf("revision %d never took effect: requests see %s", revision, got)
		}
	}
}

// answer serves HTTP at the endpoints of the first backend.
func answer(w *world.World) (stop func(), err error) {
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ReadHeaderTimeout: timeout}
	for e := range w.Endpoints {
		l, err := net.Listen("tcp", net.JoinHostPort(w.Address(e), "8000"))
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		go func() { _ = s.Serve(l) }() // ends with stop
	}
	return func() { _ = s.Close() }, nil
}

// visit is a client with one connection to an Envoy.
type visit struct {
	client http.Client
	url    string
}

func visitor(port int32, host string) *visit {
	return &visit{
		url: fmt.Sprintf("https://%s:%d/v1", host, port),
		client: http.Client{Timeout: timeout, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
			},
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // a temporary certificate
		}},
	}
}

// revision returns the revision of its route that a request sees.
func (v *visit) revision(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return "", err
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("status %d", resp.StatusCode))
	}
	return resp.Header.Get(world.RevisionHeader), errors.Join(err, resp.Body.Close())
}

// freePort returns an unused port.
func freePort() (int32, error) {
	port, err := freeport.Find()
	return int32(port), err
}
