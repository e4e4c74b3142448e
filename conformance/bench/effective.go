package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
)

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
	p, err := startPlane(c, "up", files, state, "--concurrency", "1")
	if err != nil {
		return err
	}
	defer p.stop()
	const route = 0
	v := newVisitor(fmt.Sprintf("https://%s:%d/v1", w.Host(route), size.Port), size.Port)
	if err := v.served(ctx, p); err != nil {
		return fmt.Errorf("%w; its output:\n%s", err, p.output())
	}
	var times []time.Duration
	for revision := 1; revision <= 31; revision++ {
		if err := w.StageRoutes(files, route, route, revision); err != nil {
			return err
		}
		took, err := v.effective(ctx, revision, func() error { return world.Commit(files, w.RouteFile(route)) })
		if err != nil {
			return errors.Join(err, p.Running())
		}
		times = append(times, took)
	}
	out("change_to_effective", "", milliseconds(median(times)))
	return nil
}

func answer(w *world.World) (stop func(), err error) {
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ReadHeaderTimeout: timeout}
	for e := range w.Endpoints {
		l, err := net.Listen("tcp", net.JoinHostPort(w.Address(e), "8000"))
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		go func() { _ = s.Serve(l) }()
	}
	return func() { _ = s.Close() }, nil
}

type visitor struct {
	client http.Client
	url    string
}

func newVisitor(url string, port int32) *visitor {
	return &visitor{url: url, client: http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
			},
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}}
}

func (v *visitor) revision(ctx context.Context) (string, error) {
	header, _, err := get(ctx, &v.client, v.url)
	return header.Get(world.RevisionHeader), err
}

func (v *visitor) served(ctx context.Context, p *plane) error {
	return eventually(ctx, func() error {
		got, err := v.revision(ctx)
		if err == nil && got == "0" {
			return nil
		}
		return errors.Join(fmt.Errorf("revision %q: %w", got, err), p.Running())
	})
}

func (v *visitor) effective(ctx context.Context, revision int, save func() error) (time.Duration, error) {
	begin := time.Now()
	if err := save(); err != nil {
		return 0, err
	}
	for {
		got, err := v.revision(ctx)
		if err != nil {
			return 0, err
		}
		if got == fmt.Sprint(revision) {
			return time.Since(begin), nil
		}
		if time.Since(begin) > timeout {
			return 0, fmt.Errorf("revision %d never took effect: requests see %q", revision, got)
		}
	}
}
