package gates

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/access"
)

// Board receives reports. *status.Board implements it.
type Board interface {
	Replace(source string, reports ...report.Report)
}

// Config configures a Keeper.
type Config struct {
	Store *store.Store
	Board Board
	Now   func() time.Time
	// Fetch configures how keys of JSON Web Tokens are fetched. The zero value fetches none.
	Fetch jwks.Config
	// Drain is how long a Gateway's proxies may ask about a policy after its last route there was
	// removed.
	Drain time.Duration
}

// Keeper keeps a Table equal to the store.
type Keeper struct {
	cfg     Config
	table   *authz.Table
	sub     *store.Subscription
	issuers *issuers

	follow sync.Mutex

	mu    sync.Mutex
	gates map[string][]string // Gateways, by policy
	left  map[use]time.Time
}

type use struct{ gateway, policy string }

// New makes a Keeper. Its Table makes no decisions before Run.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, table: authz.NewTable(), sub: cfg.Store.Subscribe(), gates: map[string][]string{},
		left: map[use]time.Time{}, issuers: newIssuers(cfg)}
}

// Table returns the table.
func (k *Keeper) Table() *authz.Table { return k.table }

// Run follows the store, and fetches the keys of issuers, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.sub.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return k.issuers.fetcher.Run(ctx) })
	group.Go(func() error {
		for {
			k.catchUp()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-k.sub.Ready():
			case <-k.issuers.changed:
				k.follow.Lock()
				k.issuers.report()
				k.follow.Unlock()
			}
		}
	})
	return group.Wait()
}

// Steps implements delivery.Part.
func (k *Keeper) Steps() []delivery.Step {
	return []delivery.Step{{Stage: delivery.Shrink, Deliver: func(_ context.Context, c *delivery.Change) {
		k.catchUp()
		k.use(c.Output.Gates)
	}}}
}

func (k *Keeper) catchUp() {
	k.follow.Lock()
	defer k.follow.Unlock()
	revisions, view := k.sub.Pending()
	change := authz.Change{Keys: map[string]*authz.Key{}, Policies: map[string]*authz.Policy{}}
	for _, r := range revisions {
		for _, c := range r.Changes {
			switch c.Table {
			case store.APIKeys.Kind():
				change.Keys[c.ID] = KeyOf(view, c.ID)
			case store.AccessPolicies.Kind():
				change.Policies[c.ID] = PolicyOf(view, c.ID)
			case store.Secrets.Kind(), store.ConfigMaps.Kind():
				for _, id := range k.issuers.naming(c.Table, c.ID) {
					change.Policies[id] = PolicyOf(view, id)
				}
			}
		}
	}
	k.issuers.follow(view, change.Policies)
	affected := map[string]bool{}
	mark := func() {
		for name := range change.Keys {
			affected[name] = true
			for _, other := range k.table.Sharing(name) {
				affected[other] = true
			}
		}
	}
	mark()
	k.table.Apply(change, k.cfg.Now())
	mark()
	if len(change.Policies) > 0 {
		for _, name := range slices.Concat(k.table.WithModels(), k.table.Shared()) {
			affected[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(affected)) {
		k.report(view, name)
	}
}

// TableOf returns a table with the keys and policies of a view.
func TableOf(view *store.View) *authz.Table {
	change := authz.Change{Keys: map[string]*authz.Key{}, Policies: map[string]*authz.Policy{}}
	for _, k := range store.APIKeys.All(view) {
		change.Keys[store.ID(k)] = KeyOf(view, store.ID(k))
	}
	for _, p := range store.AccessPolicies.All(view) {
		change.Policies[store.ID(p)] = PolicyOf(view, store.ID(p))
	}
	table := authz.NewTable()
	table.Apply(change, time.Time{})
	return table
}

// KeyOf returns the Table's form of an APIKey; nil if the APIKey does not exist.
func KeyOf(view *store.View, id string) *authz.Key {
	o, ok := store.APIKeys.Get(view, id)
	if !ok {
		return nil
	}
	out := &authz.Key{Namespace: o.Namespace, Name: o.Name, Labels: labels.Set(o.Labels),
		Created: o.CreationTimestamp.Time, Caller: objectid.Join(o.Namespace, cmp.Or(o.Spec.Owner, o.Name)),
		Objective: o.Spec.Objective, Disabled: o.Spec.Disabled, Groups: o.Spec.Groups, Models: o.Spec.Models}
	if o.Spec.Pools != nil {
		out.Pools = []string{} // not nil, because an empty list permits no pool
	}
	for _, p := range o.Spec.Pools {
		pool := objectid.Target{Pool: objectid.Pool{Namespace: cmp.Or(p.Namespace, o.Namespace), Name: p.Name},
			Import: p.Kind == store.InferencePoolImports.Kind()}
		out.Pools = append(out.Pools, pool.String())
	}
	if o.Spec.Expires != nil {
		out.Expires = o.Spec.Expires.Time
	}
	for _, text := range o.Spec.Hashes {
		if h, err := authz.ParseHash(text); err == nil && !authz.Weak(h) {
			out.Hashes = append(out.Hashes, h)
		}
	}
	return out
}

// PolicyOf returns the Table's form of an AccessPolicy; nil if the AccessPolicy does not exist.
func PolicyOf(view *store.View, id string) *authz.Policy {
	o, ok := store.AccessPolicies.Get(view, id)
	if !ok {
		return nil
	}
	selector, namespaces, err := access.Selector(o) // the policy's report states the error
	return &authz.Policy{Namespaces: namespaces, Selector: selector, ByModel: o.Spec.ByModel, JWT: ruleOf(view, o),
		Closed:  o.Spec.Closed != 0 || err != nil && o.Spec.JWT == nil,
		Watches: o.Spec.Revoke == v1alpha1.RevokeImmediately}
}

// report reports the hashes of a key that have no effect: invalid hashes, and hashes that an older
// key has. It also reports limits of the key that a policy ignores.
func (k *Keeper) report(view *store.View, id string) {
	source := status.Instance(status.Keys, id)
	o, ok := store.APIKeys.Get(view, id)
	if !ok {
		k.cfg.Board.Replace(source)
		return
	}
	rep := report.Report{Owner: store.APIKeys.Ref(o)}
	found := func(severity report.Severity, i int, problem, fix string) {
		rep.Findings = append(rep.Findings, report.Finding{Severity: severity, Owner: rep.Owner,
			Field: fmt.Sprintf("spec.hashes[%d]", i), Problem: problem, Fix: fix})
	}
	if unread := k.table.Unread(id); len(unread) > 0 {
		rep.Findings = append(rep.Findings, report.Finding{Severity: report.Warning, Owner: rep.Owner,
			Field: "spec.models", Problem: fmt.Sprintf("AccessPolicy %s selects it and has no byModel: the key is "+
				"denied on its routes, unless another policy there has it", strings.Join(unread, ", ")),
			Fix: "write byModel: true in the policy, or remove models"})
	}
	for i, text := range o.Spec.Hashes {
		h, err := authz.ParseHash(text)
		switch {
		case err != nil:
			found(report.Error, i, "it lets nothing in: "+err.Error(), "make a key with penstock keys create or rotate")
			continue
		case authz.Weak(h):
			found(report.Error, i, "it lets nothing in: it is the hash of an empty or well-known key, or a repetition",
				"make a key with penstock keys create or rotate")
			continue
		}
		if older := k.table.First(h, o.Namespace); older != nil && older.Name != o.Name {
			found(report.Warning, i, fmt.Sprintf("APIKey %s of the namespace has the same hash and is older, or first "+
				"by name: where a policy selects both, it counts", older.Name), "remove one of them, or rotate one")
		} else if first, policy := k.table.Instead(id, h); first != nil {
			found(report.Warning, i, fmt.Sprintf("AccessPolicy %s also selects APIKey %s, which has the same hash and "+
				"is older, or first by name: there that key counts", policy,
				objectid.Join(first.Namespace, first.Name)), "remove one of them, or rotate one")
		}
	}
	if len(rep.Findings) == 0 {
		k.cfg.Board.Replace(source)
		return
	}
	k.cfg.Board.Replace(source, rep)
}

func (k *Keeper) use(changes []translator.PolicyGateways) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	maps.DeleteFunc(k.left, func(_ use, until time.Time) bool { return !until.After(now) })
	for _, c := range changes {
		for _, gateway := range k.gates[c.Policy] {
			if !slices.Contains(c.Gateways, gateway) {
				k.left[use{gateway, c.Policy}] = now.Add(k.cfg.Drain)
			}
		}
		if k.gates[c.Policy] = c.Gateways; len(c.Gateways) == 0 {
			delete(k.gates, c.Policy)
		}
	}
}

// Gates reports whether a route of a Gateway has a policy, or had it within the drain time.
func (k *Keeper) Gates(gateway, policy string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.gates[policy], gateway) || k.cfg.Now().Before(k.left[use{gateway, policy}])
}
