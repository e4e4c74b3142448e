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

// Config is what a Source needs.
type Config struct {
	// REST says how to reach the API server. Required.
	REST *rest.Config
	// Store is what is filled. Required.
	Store *store.Store
	// Report takes what is to be said of the cluster itself, whole each time: kinds that are not installed or cannot be read.
	// nil: nobody is told.
	Report func([]report.Report)
	Log    *slog.Logger // nil: slog.Default
}

// Source follows a cluster. Safe for use by many.
type Source struct {
	cfg     Config
	client  *client
	store   *store.Store
	feed    *feed
	order   *order
	lives   *lives
	kinds   []*kind
	byTable map[string]*kind
	gates   map[*kind]*gate
	wake    chan struct{}
	ready   chan struct{} // closed when everything was read once

	mu      sync.Mutex
	crds    map[*kind]*crd // nil entry: there is none
	parts   map[part]*following
	failing map[part]error
}

// following is a part that is to be followed, and its reflector if it runs.
type following struct {
	intake  *intake
	version string
	until   time.Time // zero: for ever
	again   time.Time // when it is to be listed anew; zero: not

	running string // version
	stop    context.CancelFunc
}

// New makes a Source; it reads nothing before Run.
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
		cfg: cfg, store: cfg.Store, feed: newFeed(cfg.Store), order: newOrder(), lives: &lives{all: map[report.Ref]Live{}}, kinds: kinds(),
		byTable: map[string]*kind{}, gates: map[*kind]*gate{}, wake: make(chan struct{}, 1), ready: make(chan struct{}),
		crds: map[*kind]*crd{}, parts: map[part]*following{}, failing: map[part]error{},
	}
	var err error
	if s.client, err = newClient(cfg.REST, s.kinds); err != nil {
		return nil, err
	}
	for _, k := range s.kinds {
		if k.instead == nil {
			s.byTable[k.table.Kind()] = k
		}
		if k.gate != "" {
			s.gates[k] = newGate(k, s.feed, s.store)
		}
	}
	return s, nil
}

// Synced returns when every installed kind was read once and is in the store, or with its context's error.
func (s *Source) Synced(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lagging says whether something could not be read when it was last tried, or was not read at all yet: what is missing
// in the store may exist.
func (s *Source) Lagging() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failing) > 0
}

// Refused says that something could not be read when it was last tried, and all of that because the API server forbids it:
// it will not come by waiting.
func (s *Source) Refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.failing {
		if !apierrors.IsForbidden(err) {
			return false
		}
	}
	return len(s.failing) > 0
}

// Run follows the cluster until ctx ends. What cannot be read is reported and tried again; it fails only if the store does.
func (s *Source) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.feed.run(ctx) })
	for _, k := range s.kinds {
		if !k.builtIn {
			group.Go(func() error { return s.followCRD(ctx, k) })
		}
	}
	s.poke()
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
			case <-s.wake:
			case <-time.After(next):
			}
		}
	})
	return group.Wait()
}

func (s *Source) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// settling is how long the API server may go on telling of objects by a definition that has been replaced: without the fields that the
// new one has, though it keeps them (seen for a second). Then they are listed anew, as nobody would tell of them again.
const settling = 3 * time.Second

// defined notes what a kind's CRD is; nil: there is none.
func (s *Source) defined(k *kind, c *crd) {
	s.mu.Lock()
	old := s.crds[k]
	s.crds[k] = c
	if f := s.parts[part{kind: k}]; f != nil && old != nil && c != nil && old.Generation != c.Generation {
		f.again = time.Now().Add(settling)
	}
	s.mu.Unlock()
	if k.table.Group() == gatewayv1.GroupName {
		s.lives.invalidate(store.GatewayClasses.Kind()) // their SupportedVersion condition depends on the CRDs
	}
	s.poke()
}

// heard notes the last answer that a part got.
func (s *Source) heard(p part, err error) {
	s.mu.Lock()
	before := s.failing[p]
	if err == nil {
		delete(s.failing, p)
	} else {
		s.failing[p] = err
	}
	s.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.cfg.Log.Warn("cannot read from the API server; trying again", "kind", p.kind.table.Kind(), "part", p.scope.String(), "error", err)
		s.poke()
	case err == nil && before != nil:
		s.poke()
	}
}

// reconcile starts and stops reflectors, and lets the store be filled once everything was read. It returns when to be
// called again at the latest.
func (s *Source) reconcile(ctx context.Context, group *errgroup.Group) (next time.Duration, err error) {
	s.mu.Lock()
	next = time.Hour
	synced := true
	for _, k := range s.kinds {
		p := part{kind: k}
		if k.reach == namespaces || k.reach == named {
			continue
		}
		version := k.versions[0]
		if !k.builtIn {
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
		switch f := s.parts[p]; {
		case f == nil && version != "":
			s.parts[p] = &following{intake: newIntake(s, p), version: version}
		case f != nil && version == "":
			f.until = time.Now()
		case f != nil:
			f.version, f.until = version, time.Time{}
		}
		if f := s.parts[p]; f != nil {
			synced = synced && f.intake.isSynced()
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
				continue
			}
		}
		anew := f.anew(&next)
		if f.running != f.version || anew {
			f.end()
			// It goes on with the same intake: nothing is taken back in between.
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

func (s *Source) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// anew says whether the part is to be listed anew now; if it is later, next is no later than that.
func (f *following) anew(next *time.Duration) bool {
	if f.again.IsZero() {
		return false
	}
	if left := time.Until(f.again); left > 0 {
		*next = min(*next, left)
		return false
	}
	f.again = time.Time{}
	return true
}

func (f *following) end() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// version is the one in which a kind is followed, and written.
func (s *Source) version(k *kind) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.parts[part{kind: k}]; f != nil {
		return f.version
	}
	return k.versions[0]
}

// findings say which kinds are not there or cannot be read.
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
				Severity: k.severity(), Problem: fmt.Sprintf("kind %s is not installed in this cluster: there can be none", name),
				Fix: "install its CustomResourceDefinition; it will be noticed",
			})
		case c.serves(k.versions) == "":
			out = append(out, report.Finding{
				Severity: k.severity(), Problem: fmt.Sprintf("kind %s is served as %s here, and read as %s only", name, strings.Join(c.served(), ", "), strings.Join(k.versions, ", ")),
				Fix: "install the release of its CustomResourceDefinition that has that version",
			})
		}
	}
	for p, err := range s.failing {
		fix := ""
		if apierrors.IsForbidden(err) {
			fix = "allow penstock's service account to get, list and watch it"
		}
		out = append(out, report.Finding{Severity: report.Error, Problem: fmt.Sprintf("%s cannot be read from the API server: %s; what is known of it stays in force", p.kind.table.Kind(), err), Fix: fix})
	}
	slices.SortFunc(out, func(a, b report.Finding) int { return strings.Compare(a.Problem, b.Problem) })
	if len(out) == 0 {
		return nil
	}
	return []report.Report{{Findings: slices.Compact(out)}}
}

// split takes an id apart.
func split(id string) (namespace, name string) {
	if ns, name, ok := strings.Cut(id, "/"); ok {
		return ns, name
	}
	return "", id
}
