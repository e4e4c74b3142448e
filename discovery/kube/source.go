package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Config configures a Source.
type Config struct {
	// REST configures the connection to the API server. Required.
	REST *rest.Config
	// Store receives the objects. Required.
	Store *store.Store
	// Namespaces are the namespaces from which objects are read; empty: all. Objects in other
	// namespaces count as not existing. Kinds without a namespace are always read.
	Namespaces []string
	// Only restricts the kinds to read; empty: all. The listed kinds are assumed to be installed,
	// and no CustomResourceDefinition is read.
	Only []Kind
	// NodeNames means that EndpointSlices in Store keep the node names of their endpoints.
	NodeNames bool
	// Share bounds the memory for objects of each kind; nil: no bound. Share and Namespaces cannot
	// both be set. Keep reports whether an object is stored; nil: all objects are.
	Share *Share
	Keep  func(store.Object) bool
	// Report, if set, receives all findings about the cluster itself, whenever they may have
	// changed. Such a finding reports, for example, a kind that is not installed or cannot be read.
	Report func([]report.Report)
	Log    *slog.Logger // nil: slog.Default
}

// Kind is a kind in Config.Only. If it is not Required, it counts as empty while the API server
// forbids reading it, or while it is not installed.
type Kind struct {
	Group, Kind string
	Required    bool
}

// Source reads the objects of a cluster into a store, and follows their changes. It is safe for
// concurrent use.
type Source struct {
	cfg         Config
	client      *client
	store       *store.Store
	feed        *feed
	order       *order
	lives       *lives
	kinds       []*kind
	byTable     map[string]*kind
	gates       map[*kind]*gate
	occupants   *occupants
	undecodable *undecodables
	changed     chan struct{}
	ready       chan struct{} // closed after the first commit

	mu      sync.Mutex
	crds    map[*kind]*crd // installed CRDs; a nil entry: the kind is not installed
	parts   map[part]*following
	failing map[part]error
	gaps    map[part]gap
	kept    map[Demand]bool // the demands of the last Keep; immutable
}

type following struct {
	intake  *intake
	version string
	until   time.Time // when to stop watching the part; zero: never
	relist  time.Time // when to list again; zero: never

	running string
	stop    context.CancelFunc
}

// New makes a Source. It reads nothing before Run.
func New(cfg Config) (*Source, error) {
	if cfg.REST == nil || cfg.Store == nil {
		return nil, errors.New("kubernetes source: no API server or no store given")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Report == nil {
		cfg.Report = func([]report.Report) {}
	}
	s := &Source{
		cfg: cfg, store: cfg.Store, feed: newFeed(cfg.Store), order: newOrder(),
		lives: &lives{all: map[report.Ref]Live{}}, kinds: only(kinds(), cfg.Only),
		byTable: map[string]*kind{}, gates: map[*kind]*gate{}, changed: make(chan struct{}, 1),
		ready: make(chan struct{}),
		crds:  map[*kind]*crd{}, parts: map[part]*following{}, failing: map[part]error{}, gaps: map[part]gap{},
		undecodable: &undecodables{reasons: map[report.Ref]string{}},
	}
	s.occupants = newOccupants(s)
	var err error
	if s.client, err = newClient(cfg.REST, s.kinds); err != nil {
		return nil, err
	}
	for _, k := range s.kinds {
		if k.table == store.EndpointSlices && cfg.NodeNames {
			k.trim = trimSliceToNodes
		}
		if k.instead == nil {
			s.byTable[k.table.Kind()] = k
		}
		if k.gate != "" {
			s.gates[k] = newGate(k, s.feed, s.store)
		}
	}
	return s, nil
}

// Synced waits until the objects of every installed kind are in the store.
func (s *Source) Synced(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lagging reports whether the store may be out of date: the last read of some kind failed, or its
// watch has ended and the next watch is not up to date yet.
func (s *Source) Lagging() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, err := range s.failing {
		if !p.kind.optional || !absent(err) {
			return true
		}
	}
	return len(s.gaps) > 0
}

// Forbidden reports whether the API server forbids every failing read, so that waiting does not
// help.
func (s *Source) Forbidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.failing {
		if !apierrors.IsForbidden(err) {
			return false
		}
	}
	return len(s.failing) > 0
}

// Run reads the cluster's objects and follows their changes until ctx ends. It reports and retries
// failed reads, and fails only if the store fails.
func (s *Source) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.feed.run(ctx) })
	for _, k := range s.kinds {
		if !k.installed() {
			group.Go(func() error { return s.followCRD(ctx, k) })
		}
	}
	s.notify()
	group.Go(func() error {
		for {
			next, err := s.reconcile(ctx, group)
			if err != nil {
				return err
			}
			s.cfg.Report(s.findings())
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.changed:
			case <-time.After(next):
			}
		}
	})
	return group.Wait()
}

func (s *Source) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// relistDelay is how long after the change of a CRD its objects are listed again. For up to a
// second after the change, the API server still delivers objects according to the old definition,
// and sends no events about them later.
const relistDelay = 3 * time.Second

func (s *Source) defined(k *kind, c *crd) {
	s.mu.Lock()
	old := s.crds[k]
	s.crds[k] = c
	for _, p := range s.wholeParts(k) {
		if f := s.parts[p]; f != nil && old != nil && c != nil && old.Generation != c.Generation {
			f.relist = time.Now().Add(relistDelay)
		}
	}
	s.mu.Unlock()
	if k.table.Group() == gatewayv1.GroupName {
		s.lives.invalidate(store.GatewayClasses.Kind()) // their condition SupportedVersion depends on the CRDs
	}
	s.notify()
}

func (s *Source) answered(p part, err error) {
	s.mu.Lock()
	before := s.failing[p]
	if err == nil {
		delete(s.failing, p)
	} else {
		s.failing[p] = err
	}
	s.mu.Unlock()
	switch {
	case err != nil && p.kind.optional && absent(err):
		if before == nil {
			s.cfg.Log.Info("not read: the kind is not installed, or its objects may not be read", "kind",
				p.kind.table.Kind(), "error", err)
			s.notify()
		}
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.cfg.Log.Warn("cannot read from the API server; retrying", "kind", p.kind.table.Kind(), "part",
			p.scope.String(), "error", err)
		s.notify()
	case err == nil && before != nil:
		s.notify()
	}
}

// reconcile starts and ends reflectors, according to installed kinds and demands. Once all
// installed kinds have been read, it makes the first commit. The caller must call reconcile again
// after next at the latest.
func (s *Source) reconcile(ctx context.Context, group *errgroup.Group) (next time.Duration, err error) {
	s.mu.Lock()
	next = time.Hour
	synced := true
	for _, k := range s.kinds {
		if k.reach == namespaces || k.reach == named {
			continue
		}
		version := k.versions[0]
		if !k.installed() {
			c, known := s.crds[k]
			if !known {
				synced = false
				continue
			}
			version = ""
			if c != nil {
				version = c.serves(k.versions)
			}
		}
		for _, p := range s.wholeParts(k) {
			synced = (s.expect(p, version) || k.optional && absent(s.failing[p])) && synced
		}
	}
	var over []*intake
	for p, f := range s.parts {
		if !f.until.IsZero() {
			if left := time.Until(f.until); left > 0 {
				next = min(next, left)
			} else {
				f.end()
				over = append(over, f.intake)
				delete(s.parts, p)
				delete(s.failing, p)
				delete(s.gaps, p)
				continue
			}
		}
		relist := f.relistNow(&next)
		if f.running != f.version || relist {
			f.end()
			// The new reflector uses the intake of the old one, so that no object disappears
			// between both.
			f.running = f.version
			var watching context.Context
			watching, f.stop = context.WithCancel(ctx)
			in, version := f.intake, f.version
			group.Go(func() error { return s.follow(watching, in, version) })
		}
	}
	s.mu.Unlock()
	for _, in := range over {
		in.clear()
	}
	if synced && !s.isReady() {
		if err := s.feed.start(); err != nil {
			return next, err
		}
		close(s.ready)
	}
	return next, nil
}

func (s *Source) expect(p part, version string) (synced bool) {
	switch f := s.parts[p]; {
	case f == nil && version != "":
		s.parts[p] = &following{intake: newIntake(s, p), version: version}
	case f != nil && version == "":
		f.until = time.Now()
	case f != nil:
		f.version, f.until = version, time.Time{}
	}
	f := s.parts[p]
	return f == nil || f.intake.isSynced()
}

var clusterWide = []string{store.GatewayClasses.Kind(), store.ClusterSets.Kind(), store.ClusterProperties.Kind()}

func (s *Source) wholeParts(k *kind) []part {
	if len(s.cfg.Namespaces) == 0 || slices.Contains(clusterWide, k.table.Kind()) {
		return []part{{kind: k}}
	}
	var out []part
	for _, ns := range s.cfg.Namespaces {
		p := part{k, scope{namespace: ns}}
		if k.table.Kind() == store.Namespaces.Kind() {
			p.scope = scope{name: ns}
		}
		out = append(out, p)
	}
	return out
}

func (s *Source) reads(namespace string) bool {
	return len(s.cfg.Namespaces) == 0 || slices.Contains(s.cfg.Namespaces, namespace)
}

func (s *Source) isReady() bool { return isClosed(s.ready) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (f *following) relistNow(next *time.Duration) bool {
	if f.relist.IsZero() {
		return false
	}
	if left := time.Until(f.relist); left > 0 {
		*next = min(*next, left)
		return false
	}
	f.relist = time.Time{}
	return true
}

func (f *following) end() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

func (s *Source) version(k *kind) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.parts[s.wholeParts(k)[0]]; f != nil {
		return f.version
	}
	return k.versions[0]
}

func (s *Source) findings() []report.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []report.Finding
	for _, k := range s.kinds {
		name := k.table.Kind()
		if k.table.Group() != "" {
			name += " (" + k.table.Group() + ")"
		}
		c, known := s.crds[k]
		switch {
		case k.builtIn || !known || k.instead != nil && c == nil:
		case c == nil:
			out = append(out, report.Finding{
				Severity: k.severity(), Problem: fmt.Sprintf("kind %s is not installed in this cluster", name),
				Fix: "install its CustomResourceDefinition; penstock detects it without a restart",
			})
		case c.serves(k.versions) == "":
			out = append(out, report.Finding{
				Severity: k.severity(),
				Problem: fmt.Sprintf("kind %s is served as %s, but penstock reads only %s", name,
					strings.Join(c.served(), ", "), strings.Join(k.versions, ", ")),
				Fix: "install a release of its CustomResourceDefinition that serves that version",
			})
		}
	}
	for p, err := range s.failing {
		if p.kind.optional && absent(err) {
			continue
		}
		fix := ""
		if apierrors.IsForbidden(err) {
			fix = "allow penstock's service account to get, list and watch it"
		}
		out = append(out,
			report.Finding{Severity: report.Error,
				Problem: fmt.Sprintf(
					"%s cannot be read from the API server: %s; objects that were read before stay in use",
					p.kind.table.Kind(), err), Fix: fix})
	}
	slices.SortFunc(out, func(a, b report.Finding) int { return strings.Compare(a.Problem, b.Problem) })
	reports := s.undecodable.reports()
	if len(out) > 0 {
		reports = append(reports, report.Report{Findings: slices.Compact(out)})
	}
	return reports
}
