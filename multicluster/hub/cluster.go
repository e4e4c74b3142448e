package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/hub/decide"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/set"
)

const (
	// contactInterval is a third of a lease.
	contactInterval = 5 * time.Second
	contactTimeout  = 4 * time.Second
	restartDelay    = 5 * time.Second
)

type cluster struct {
	hub  *Hub
	name string
	key  string
	rest *rest.Config

	store *store.Store
	stop  context.CancelFunc
	done  chan struct{}
	again chan struct{}
	anew  atomic.Bool

	mu      sync.Mutex
	config  v1alpha1.ClusterSetMember
	others  []string
	create  bool
	source  *kube.Source
	objects *set.Kubernetes
	exports *exported
	beside  *beside
	uid     string
	leftOut string
	reading []report.Report
}

// writers returns the writers of imports and of conditions; nil before the member is read.
func (c *cluster) writers() (*set.Kubernetes, *exported) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects, c.exports
}

func (c *cluster) member(m *v1alpha1.ClusterSetMember) decide.Member {
	return decide.Member{Name: c.name, Allow: m.Allow, Draining: m.Draining, Store: c.store, Namespace: c.namespace,
		Own: c.own}
}

func (c *cluster) namespace(name string) bool {
	if ns, ok := store.Namespaces.Get(c.store.View(), name); ok {
		return ns.Status.Phase != corev1.NamespaceTerminating
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.create
}

func (c *cluster) own(p objectid.Pool) []string {
	if status := c.live(store.RefOf(store.InferencePoolImports, p.String())); status != nil {
		return set.HubEntries(status)
	}
	return nil
}

func (c *cluster) live(ref report.Ref) *inferenceapi.InferencePoolImportStatus {
	c.mu.Lock()
	source := c.source
	c.mu.Unlock()
	if source == nil {
		return nil
	}
	live, ok := source.Live(ref)
	if !ok {
		return nil
	}
	return live.Status.(*inferenceapi.InferencePoolImportStatus)
}

func (c *cluster) run(ctx context.Context) {
	defer close(c.done)
	var quiet klog.Logger // discards client-go's logs, because the hub reports the errors itself
	ctx = klog.NewContext(ctx, quiet)
	for ctx.Err() == nil {
		err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		c.hub.out.Lost(c.name)
		c.report(err)
		if errors.Is(err, errAnew) {
			c.anew.Store(true)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

var errAnew = errors.New("it is read again")

func (c *cluster) decideAgain() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

func (c *cluster) report(err error) {
	var m *mistake
	switch {
	case err == nil:
		c.hub.note(c.name, nil)
	case errors.As(err, &m):
		c.hub.note(c.name, m)
	default:
		c.hub.note(c.name, c.mistake(fmt.Sprintf("its API server %s cannot be used: %.400v", c.rest.Host, err),
			"its exports stay as they are, and it is tried again"))
	}
}

func (c *cluster) once(ctx context.Context) error {
	config := rest.CopyConfig(c.rest)
	config.QPS, config.UserAgent = -1, "penstock-hub"
	kube.BoundResponses(config)
	share := c.hub.budget.Share()
	defer share.Close()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	readable, err := c.readable(ctx, client)
	if err != nil {
		return err
	}
	if err := c.identify(ctx, client); err != nil {
		return err
	}
	schema, err := newInstalled(config)
	if err != nil {
		return err
	}
	if err := schema.read(ctx); err != nil {
		c.hub.log.Warn("the schema of a member's imports cannot be read; trying again", "member", c.name,
			"error", err)
	}
	source, err := kube.New(kube.Config{
		REST: config, Store: c.store, Only: kinds(readable), NodeNames: true, Share: share, Keep: needed,
		Report: c.read, Log: c.hub.log.With("member", c.name),
	})
	if err != nil {
		return err
	}
	objects, err := set.NewKubernetes(set.KubernetesConfig{REST: config, Store: c.store, Live: c.live,
		Log: c.hub.log.With("member", c.name), Hub: &set.HubWriter{
			UID: c.hub.uid, Epoch: c.hub.epoch, Member: c.name, IsMember: c.hub.isMember, TakeOver: c.hub.cfg.TakeOver,
			Settled: c.hub.out.Settled, Pruned: schema.prunes, Written: c.written,
			CreateNamespaces: func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.create },
			Version: func(ref report.Ref) string {
				live, _ := source.Live(ref)
				return live.ResourceVersion
			},
		}})
	if err != nil {
		return err
	}
	objects.Follow(func(p objectid.Pool, generation int64) (inferenceapi.InferencePoolImportStatus, bool) {
		return c.hub.out.Import(c.name, p, generation)
	})
	exports := newExported(c, source)
	beside, err := newBeside(client, readable, share, c.decideAgain)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.source, c.objects, c.exports, c.beside = source, objects, exports, beside
	c.mu.Unlock()
	source.OnLive(c.changed)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Run(ctx) })
	group.Go(func() error { return beside.run(ctx) })
	group.Go(func() error { return c.contact(ctx, client, source, readable, schema, share) })
	group.Go(func() error {
		if err := cmp.Or(source.Synced(ctx), beside.synced(ctx)); err != nil {
			return err
		}
		c.report(nil)
		c.reportLeftOut(share)
		c.restore()
		objects.Begin()
		group.Go(func() error { return objects.Lead(ctx) })
		group.Go(func() error { return exports.run(ctx) })
		return c.follow(ctx, source)
	})
	return group.Wait()
}

func (c *cluster) read(reports []report.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = reports
}

func (c *cluster) changed(ref report.Ref) {
	objects, exports := c.writers()
	p := objectid.Pool{Namespace: ref.Namespace, Name: ref.Name}
	switch ref.Kind {
	case store.InferencePoolImports.Kind():
		objects.Enqueue(p)
	case store.InferencePools.Kind():
		exports.enqueue(p)
		c.decideAgain()
	case store.Gateways.Kind():
		c.decideAgain()
	}
}

func (c *cluster) restore() {
	entries := map[objectid.Pool][]inferenceapi.ImportedCluster{}
	for _, obj := range store.InferencePoolImports.All(c.store.View()) {
		status := c.live(store.InferencePoolImports.Ref(obj))
		if status == nil {
			continue
		}
		mine := set.HubEntries(status)
		for _, e := range status.Clusters {
			if slices.Contains(mine, e.Name) {
				p := objectid.Pool{Namespace: obj.Namespace, Name: obj.Name}
				entries[p] = append(entries[p], *deepcopy.Of(&e))
			}
		}
	}
	c.hub.out.Restore(c.name, entries)
}

// contact polls the member's API server. It returns an error if the member must be read anew: its
// installed kinds or UID changed, or objects that had no room may have room now.
func (c *cluster) contact(
	ctx context.Context, client dynamic.Interface, source *kube.Source, before []right, schema *installed,
	share *kube.Share,
) error {
	tick := time.NewTicker(contactInterval)
	defer tick.Stop()
	prunes := schema.prunes
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		uid := c.clusterUID()
		err := c.identify(ctx, client)
		if err == nil && c.clusterUID() != uid {
			return fmt.Errorf("%w: its API server now serves another cluster", errAnew)
		}
		if err == nil && n%3 == 0 {
			var now []right
			if now, err = c.readable(ctx, client); err == nil &&
				!slices.EqualFunc(now, before, func(a, b right) bool { return a.gvr() == b.gvr() }) {
				return fmt.Errorf("%w: its installed kinds have changed", errAnew)
			}
			if err == nil {
				err = schema.read(ctx)
			}
			if share.Roomy() {
				return fmt.Errorf("%w: objects that were left out may have room now", errAnew)
			}
			if err == nil && schema.prunes != prunes {
				return fmt.Errorf("%w: its CRD of InferencePoolImport has changed", errAnew)
			}
		}
		c.reportUnfit()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.report(err)
			c.hub.out.Lost(c.name)
		case source.Lagging():
			c.hub.out.Lost(c.name)
		default:
			c.report(nil)
			c.reportLeftOut(share)
			c.hub.out.Contact(c.name, c.clusterUID())
		}
	}
}

func (c *cluster) clusterUID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uid
}

// identify reads the cluster's UID. It fails if another member is certainly the same cluster.
func (c *cluster) identify(ctx context.Context, client dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	uid, err := set.ClusterUID(ctx, client)
	if err != nil {
		return err
	}
	switch other, certain := c.hub.claim(c.name, claim{uid, c.rest}); {
	case certain:
		return c.mistake("it is the same cluster as member "+other,
			"remove one of them, or correct its kubeconfig or clusterProfile")
	case other != "":
		c.hub.note(c.name+twin, c.mistake("its API server reports the UID of the cluster of member "+other,
			"if both are one cluster, remove one of them; else find the API server that reports a UID that "+
				"is not its own"))
	default:
		c.hub.note(c.name+twin, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uid = uid
	return nil
}

func (c *cluster) follow(ctx context.Context, source *kube.Source) error {
	sub := c.store.Subscribe()
	defer sub.Close()
	taken := map[objectid.Pool][]string{}
	var demands []kube.Demand
	var spent pace
	c.decideAgain() // a member without objects causes no event, but needs a first decision
	for {
		decide := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sub.Ready():
		case <-c.again:
			decide = true
		}
		revisions, view := sub.Pending()
		namespaces := false
		for _, rev := range revisions {
			c.objects.Changed(view, rev.Changes)
			for _, o := range rev.Changes {
				switch o.Table {
				case store.InferencePools.Kind(), store.Services.Kind(), store.EndpointSlices.Kind(),
					store.Gateways.Kind():
					decide = true
				case store.Namespaces.Kind():
					namespaces = true
				case store.InferencePoolImports.Kind():
					p, _ := objectid.ParsePool(o.ID)
					if now := imports.Taken(view, p); !slices.Equal(now, taken[p]) {
						if taken[p] = now; len(now) == 0 {
							delete(taken, p)
						}
						c.hub.out.Taken(c.name, p)
					}
				}
			}
		}
		if namespaces {
			c.hub.out.Namespaces(c.name)
		}
		if decide {
			began := time.Now()
			changed, err := c.decide(ctx, view, source, &demands)
			if err != nil {
				return err
			}
			if err := wait(ctx, spent.spent(time.Since(began), changed, time.Now())); err != nil {
				return err
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (c *cluster) written(p objectid.Pool, result set.Written, err error) {
	w := decide.Writing{Clusters: result.Clusters, Left: result.Left, Pruned: result.Pruned}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		return
	case errors.Is(err, set.ErrFenced), apierrors.IsForbidden(err):
		w.Reason, w.Message = imports.NotAllowedReason, err.Error()
	case apierrors.IsConflict(err):
		w.Reason, w.Message = imports.ConflictReason, err.Error()
	case apierrors.IsNotFound(err):
		w.Reason, w.Message = imports.NotSupportedReason,
			"kind InferencePoolImport is not installed there, or the namespace is gone: "+err.Error()
	default:
		w.Reason, w.Message = export.MemberUnreachableReason, err.Error()
	}
	c.hub.out.Written(c.name, p, w)
}
