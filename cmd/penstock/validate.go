package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/supervisor"
)

const validateTime = 30 * time.Second

func validate(ctx context.Context, binary supervisor.Binary, gateway string, resources []*resource.Resource,
	log *slog.Logger) ([]report.Report, error) {
	dir, err := os.MkdirTemp("", "penstock-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	found := &rejections{}
	c := cache.New(cache.Config{})
	xds, err := server.New(server.Config{Cache: c, Reports: found, Log: log})
	if err != nil {
		return nil, err
	}
	l, err := ports.Local.Listen(ctx, "unix", filepath.Join(dir, "xds.sock"))
	if err != nil {
		return nil, err
	}
	batch := cache.Batch{Gateway: gateway, Revision: 1}
	for _, r := range resources {
		if r, err = unbound(r); err != nil {
			return nil, err
		}
		batch.Upserts = append(batch.Upserts, r)
	}
	c.Commit(batch)
	c.SetReady()
	cfg := bootstrap.Config{Gateway: gateway, ADS: []string{"unix:" + l.Addr().String()}, Concurrency: 1}
	boot, err := bootstrap.YAML(cfg)
	if err != nil {
		return nil, err
	}
	p, err := supervisor.NewEnvoy(supervisor.EnvoyConfig{
		Envoy: binary.Path, Gateway: gateway, Bootstrap: boot, Dir: filepath.Join(dir, "envoy"), Args: cfg.Args(),
		Grace: time.Millisecond, LogLevel: "off", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer(server.Options()...)
	xds.Register(s)
	ctx, cancel := context.WithTimeout(ctx, validateTime)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Serve(l) })
	group.Go(func() error { return p.Run(ctx) })
	group.Go(func() error {
		defer s.Stop()
		defer cancel()
		return acceptedAll(ctx, xds, gateway, resources)
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("validate gateway %s with Envoy: %w", gateway, err)
	}
	return found.list(), nil
}

func acceptedAll(ctx context.Context, xds *server.Server, gateway string, resources []*resource.Resource) error {
	for _, r := range resources {
		if r.Type == resource.Endpoints { // Envoy does not request unused clusters' endpoints
			continue
		}
		if err := xds.WaitAcked(ctx, gateway, r.Ref, ""); err != nil && !errors.Is(err, server.ErrRejected) {
			return err
		}
	}
	return nil
}

// unbound returns a listener that does not bind its port, which may be in use. Envoy always binds
// UDP, so a UDP listener gets a free port.
func unbound(r *resource.Resource) (*resource.Resource, error) {
	if r.Type != resource.Listener {
		return r, nil
	}
	msg, err := debug.Decode(r)
	if err != nil {
		return nil, err
	}
	l := msg.(*listenerv3.Listener)
	if l.GetInternalListener() != nil {
		return r, nil
	}
	if l.UdpListenerConfig != nil {
		l.AdditionalAddresses = nil
		at := l.Address.GetSocketAddress()
		at.Address, at.PortSpecifier = "127.0.0.1", &corev3.SocketAddress_PortValue{}
	} else {
		l.BindToPort = wrapperspb.Bool(false)
	}
	return resource.New(r.Type, r.Name, l, r.Refs, r.Owners())
}

type rejections struct {
	mu      sync.Mutex
	reports []report.Report
}

// Rejected ignores an empty list, which a disconnected proxy causes.
func (r *rejections) Rejected(_, _ string, reports []report.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(reports) > 0 {
		r.reports = reports
	}
}

func (r *rejections) list() []report.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports
}
