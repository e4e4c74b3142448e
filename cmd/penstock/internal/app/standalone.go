package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

// StandAlone configures a picker for gateways that Penstock does not configure.
type StandAlone struct {
	// Paths are folders and files with objects. If it is empty, REST must be set.
	Paths []string
	REST  *rest.Config
	// Pool is the InferencePool; zero: the only one in the files. On Kubernetes, only its namespace
	// is read.
	Pool  objectid.Pool
	Group string
	// Own replaces the InferencePool of the source; may be nil.
	Own *inferencev1.InferencePool
	// Source is the source of metrics pages, unless the PoolPolicy or the Document sets one.
	Source endpointpicker.PageSource
	// Document is the EndpointPickerConfig; nil: the pool's PoolPolicy has the strategy.
	Document *Document
	Protocol picker.Protocol
	TLS      *tls.Config
	// Health serves gRPC health checks in cleartext; nil: only the picker's port serves them.
	Health net.Listener
	// Drain is how long the picker continues at shutdown, with failing health checks, so that
	// gateways leave it.
	Drain time.Duration
}

type noEnvoys struct{}

func (noEnvoys) EndpointsKnown(context.Context, ...string) error { return nil }

// NewStandAlone makes an App that picks for gateways that Penstock does not configure.
func NewStandAlone(cfg Config, s StandAlone) (*App, error) {
	translation := cfg.translation()
	translation.Controller, translation.AnyClass = "", false
	translation.StandAlone = &inference.StandAlone{Pool: s.Pool, Source: s.Source}
	cfg.DefaultPool = s.Pool
	var c core
	var source discovery
	var err error
	if s.REST == nil {
		var files *file.Reader
		c, files, err = newFileCore(s.Paths, cfg.StateDir, translation, cfg.Addresses, Folder{}, cfg.Log)
		source = &fromFiles{files, make(chan struct{})}
	} else {
		addresses := cfg.Addresses
		addresses.shared = true
		translation.Slices, translation.OnDemand = true, kube.OnDemand()
		if c, err = newCore(cfg.StateDir, translation, addresses, nil, cfg.Log); err == nil {
			source, err = fromCluster(c, s, cfg)
		}
	}
	if err != nil {
		return nil, err
	}
	own := openSecurity(cfg.Peers, cfg.Log)
	own.picks = s.TLS
	a, err := newApp(cfg, c, wiring{security: own, standAlone: &s, proxies: func(string) {}})
	if err != nil {
		return nil, err
	}
	last := ""
	found := delivery.On(delivery.Observe, func(context.Context, *delivery.Change) {
		why := a.unready()
		switch {
		case why == last:
		case why != "":
			cfg.Log.Error("there is no pool to pick from, so health checks fail: " + why)
		default:
			cfg.Log.Info("there is a pool to pick from: health checks succeed")
		}
		last = why
	})
	line := a.pipeline(pipeline.Config{Fetch: source.fetch(a),
		First: []func(context.Context){a.settleNames, a.syncPeers}}, found)
	a.run = func(ctx context.Context) error { return s.run(ctx, a, source, line) }
	return a, nil
}

const maxListed = 8

func (a *App) unready() string {
	if a.standAlone == nil || a.picker.HasDefault() {
		return ""
	}
	var pools []objectid.Pool
	var names []string
	for _, pool := range store.InferencePools.All(a.store.View()) {
		pools, names = append(pools, objectid.PoolOf(pool)), append(names, store.ID(pool))
	}
	slices.Sort(names)
	list := strings.Join(names[:min(len(names), maxListed)], ", ")
	if more := len(names) - maxListed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	switch wanted := a.standAlone.Pool; {
	case slices.Contains(pools, wanted), wanted.IsZero() && len(names) == 1:
		return "InferencePool " + cmp.Or(wanted, pools[0]).String() +
			" cannot be picked from as configured: correct what the log names"
	case !wanted.IsZero() && len(names) == 0:
		return "there is no InferencePool " + wanted.String() + "; create it, or name another one in --pool-name"
	case !wanted.IsZero():
		return "there is no InferencePool " + wanted.String() + "; write one of " + list + " in --pool-name"
	case len(names) == 0:
		return "there is no InferencePool; write one"
	}
	return "there are several InferencePools; write the one to pick from in --pool-name: " + list
}

func (s *StandAlone) run(ctx context.Context, a *App, source discovery, line *pipeline.Pipeline) error {
	drained, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, running := errgroup.WithContext(drained)
	group.Go(func() error {
		defer end()
		select {
		case <-running.Done():
			return nil
		case <-ctx.Done():
		}
		a.Leave()
		a.picker.Leave()
		select {
		case <-running.Done():
		case <-time.After(s.Drain):
		}
		a.EndPicks()
		return nil
	})
	if err := a.servePages(running, group); err != nil {
		return err
	}
	if s.Health != nil {
		group.Go(func() error {
			return serveGRPC(running, ports.Health.Open(s.Health), nil, nil, a.picker.RegisterHealth)
		})
	}
	group.Go(func() error { return quiet(running, source.run(running)) })
	group.Go(func() error {
		if err := source.read(running); err != nil {
			return quiet(running, err)
		}
		if s.Own != nil {
			if _, err := a.store.Apply(store.InferencePools.Put(s.Own)); err != nil {
				return err
			}
		}
		if s.Document != nil {
			if err := s.Document.store(a.store); err != nil {
				return err
			}
			group.Go(func() error { return quiet(running, s.Document.run(running, a.store, a.log)) })
		}
		if err := a.hosts.Restore(); err != nil {
			return err
		}
		a.serve(running, group, line)
		return nil
	})
	return group.Wait()
}

type discovery interface {
	// read returns once all objects were read. run then follows their changes.
	read(context.Context) error
	run(context.Context) error
	fetch(*App) *pipeline.Fetch
}

type fromFiles struct {
	files  *file.Reader
	loaded chan struct{}
}

func (f *fromFiles) read(ctx context.Context) error {
	defer close(f.loaded)
	return f.files.Load(ctx)
}

func (f *fromFiles) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.loaded:
	}
	return f.files.Run(ctx)
}

func (f *fromFiles) fetch(*App) *pipeline.Fetch { return nil }

type clusterSource struct{ source *kube.Source }

// fromCluster requires only Pods and InferencePools, because the account of llm-d's EPP may read
// little else.
func fromCluster(c core, s StandAlone, cfg Config) (discovery, error) {
	namespace := s.Pool.Namespace
	kinds := []kube.Kind{{Group: store.Pods.Group(), Kind: store.Pods.Kind(), Required: true}}
	if s.Own == nil {
		for _, group := range []string{store.InferencePools.Group(), inferenceapi.Group} {
			kinds = append(kinds,
				kube.Kind{Group: group, Kind: store.InferencePools.Kind(), Required: group == s.Group})
		}
	}
	for _, k := range []store.Kind{
		store.PoolPolicies, store.ModelServers, store.InferenceModels, store.InferenceModelRewrites,
		store.InferenceObjectives, store.ConfigMaps,
		// for scorers in other processes, and for TLS to model servers
		store.Services, store.EndpointSlices, store.BackendTLSPolicies,
	} {
		kinds = append(kinds, kube.Kind{Group: k.Group(), Kind: k.Kind()})
	}
	for _, k := range []store.Kind{store.InferenceModelRewrites, store.InferenceObjectives} {
		kinds = append(kinds, kube.Kind{Group: inferenceapi.Group, Kind: k.Kind()})
	}
	source, err := kube.New(kube.Config{
		REST: s.REST, Store: c.store, Namespaces: []string{namespace}, Only: kinds, Log: cfg.Log,
		Report: func(reports []report.Report) { c.board.Replace(status.Cluster, reports...) },
	})
	if err != nil {
		return nil, errors.Join(errors.New("the API server cannot be read"), err)
	}
	return &clusterSource{source}, nil
}

func (k *clusterSource) read(ctx context.Context) error { return k.source.Synced(ctx) }
func (k *clusterSource) run(ctx context.Context) error  { return k.source.Run(ctx) }
func (k *clusterSource) fetch(a *App) *pipeline.Fetch {
	return pipeline.NewFetch(k.source, a.translation, a.log)
}
