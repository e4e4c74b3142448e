package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/lab/retry"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
)

const timeout = 3 * time.Minute

var translation = translator.Config{
	Controller: "penstock.dev/gateway-controller", AnyClass: true,
	Pickers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")},
}

type rig struct {
	world      *world.World
	store      *store.Store
	translator *translator.Translator
	cache      *cache.Cache
	server     *server.Server
	grpc       *grpc.Server
	address    string
}

func newRig(size world.Size) (*rig, error) {
	w, err := world.New(size)
	if err != nil {
		return nil, err
	}
	r := &rig{world: w, translator: translator.New(translation), cache: cache.New(cache.Config{})}
	r.store = store.New()
	if r.server, err = server.New(server.Config{Cache: r.cache}); err != nil {
		return nil, err
	}
	if err := r.change(append(w.Ops(), store.AddressPolicies.Put(addresses.Unrestricted()))...); err != nil {
		return nil, err
	}
	r.cache.SetReady()
	r.grpc = grpc.NewServer(server.Options()...)
	r.server.Register(r.grpc)
	r.address, err = serve(r.grpc)
	return r, err
}

func serve(s *grpc.Server) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), nil
}

func (r *rig) close() { r.grpc.Stop() }

func (r *rig) change(ops ...store.Op) error {
	rev, err := r.store.Apply(ops...)
	if err != nil {
		return err
	}
	return r.commit(rev.N, r.translator.Update(r.store.View(), rev.Changes))
}

func (r *rig) commit(revision uint64, out translator.Output) error {
	for _, d := range out.Deltas {
		r.cache.Commit(cache.Batch{Gateway: d.Gateway, Revision: revision, Upserts: d.Upserts, Removes: d.Removes})
	}
	return out.Err
}

// rebuild is change with a full translation.
func (r *rig) rebuild(ops ...store.Op) error {
	rev, err := r.store.Apply(ops...)
	if err != nil {
		return err
	}
	view := r.store.View()
	return r.commit(rev.N, translator.New(translation).Update(view, store.Everything(view)))
}

func (r *rig) acked(ctx context.Context, ref resource.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.server.WaitAcked(ctx, world.Gateway, ref, "")
}

func complete(ctx context.Context, p *proxy.Proxy, want int) error {
	return eventually(ctx, func() error {
		if err := p.Err(); err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		if n := p.Have().Count(); n != want {
			return fmt.Errorf("%d of %d resources", n, want)
		}
		return nil
	})
}

func eventually(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return retry.Until(ctx, 5*time.Millisecond, func(context.Context) error { return check() })
}
