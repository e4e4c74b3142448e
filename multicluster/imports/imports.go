package imports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/fault"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Reasons of a Placement: why this cluster does not import an export, or its newest version.
const (
	NotAllowedReason        = "NotAllowed"
	NamespaceNotFoundReason = "NamespaceNotFound"
	NotSupportedReason      = "NotSupported"
	// ConflictReason means that a user or another controller wrote the import's entry of the
	// cluster.
	ConflictReason = "Conflict"
)

const (
	defaultExports   = 1000   // default of ClusterSetAllow.Exports
	defaultEndpoints = 10_000 // default of ClusterSetAllow.Endpoints
)

// Config configures an Importer.
type Config struct {
	Registry *registry.Registry
	Store    *store.Store
	// Namespace reports whether a namespace exists in this cluster; nil: all do.
	Namespace func(name string) bool
	// Self is the importing cluster's name. Its own exports in Registry need no entry in SetAllow.
	// "": Registry has none.
	Self string
	// Own returns the clusters whose entries in the stored import of p come from Status of this
	// Importer.
	Own func(p objectid.Pool) []string
}

// Importer is safe for concurrent use.
type Importer struct {
	cfg Config

	mu        sync.Mutex
	allow     map[string]v1alpha1.ClusterSetAllow
	over      map[string]map[objectid.Pool]share
	unnamed   map[string]map[objectid.Pool]struct{}
	unnamedAt map[objectid.Pool][]string
	own       string
	local     map[objectid.Pool]*int32
	down      map[picker]map[string]string // keyed by exporting cluster, then by source
	unusable  map[objectid.Pool]map[string]Unusable
}

// Unusable states why translation cannot use an exporting cluster of an import. Reason is
// NotAllowedReason or NotSupportedReason.
type Unusable struct{ Reason, Message string }

type picker struct {
	pool    objectid.Pool
	cluster string
}

// New makes an importer that imports nothing before SetAllow.
func New(c Config) *Importer {
	if c.Namespace == nil {
		c.Namespace = func(string) bool { return true }
	}
	return &Importer{cfg: c, allow: map[string]v1alpha1.ClusterSetAllow{}, over: map[string]map[objectid.Pool]share{},
		local: map[objectid.Pool]*int32{}, down: map[picker]map[string]string{},
		unusable: map[objectid.Pool]map[string]Unusable{},
		unnamed:  map[string]map[objectid.Pool]struct{}{}, unnamedAt: map[objectid.Pool][]string{}}
}

// SetAllow replaces the limits, keyed by member. It returns all pools, to pass to Assemble.
func (i *Importer) SetAllow(allow map[string]v1alpha1.ClusterSetAllow) []objectid.Pool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.allow = allow
	return i.all()
}

// SetLocal sets which pools of this cluster are exporting clusters of their imports, with their
// weights (nil: 1). It returns the pools to pass to Assemble.
func (i *Importer) SetLocal(cluster string, pools map[objectid.Pool]*int32) (changed []objectid.Pool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for p, w := range pools {
		if old, ok := i.local[p]; !ok || i.own != cluster || count(old, 1) != count(w, 1) {
			changed = append(changed, p)
		}
	}
	for p := range i.local {
		if _, stays := pools[p]; !stays {
			changed = append(changed, p)
		}
	}
	i.own, i.local = cluster, maps.Clone(pools)
	return changed
}

// SetPickerDown records why an exporting cluster's picker cannot be reached; why "": it can. source
// names the observer. It returns the pools to pass to Assemble.
func (i *Importer) SetPickerDown(p objectid.Pool, cluster, source, why string) []objectid.Pool {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := picker{p, cluster}
	before := i.pickerDown(at)
	switch reasons := i.down[at]; {
	case why == "":
		if delete(reasons, source); len(reasons) == 0 {
			delete(i.down, at)
		}
	case reasons == nil:
		i.down[at] = map[string]string{source: why}
	default:
		reasons[source] = why
	}
	if i.pickerDown(at) == before {
		return nil
	}
	return i.exported(p)
}

func (i *Importer) exported(p objectid.Pool) []objectid.Pool {
	if !i.cfg.Registry.Exported(p) {
		return nil
	}
	return []objectid.Pool{p}
}

// SetUnusable replaces the clusters of an import that translation cannot use. It returns the pools
// to pass to Assemble.
func (i *Importer) SetUnusable(p objectid.Pool, clusters map[string]Unusable) []objectid.Pool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unusable[p] = clusters; len(clusters) == 0 {
		delete(i.unusable, p)
	}
	return i.exported(p)
}

// The caller holds mu.
func (i *Importer) pickerDown(at picker) string {
	reasons := i.down[at]
	if len(reasons) == 0 {
		return ""
	}
	return "its picker fails: " + reasons[slices.Min(slices.Collect(maps.Keys(reasons)))]
}

// The caller holds mu.
func (i *Importer) all() (pools []objectid.Pool) {
	pools = i.cfg.Registry.Pools()
	for _, o := range store.Offers.All(i.cfg.Store.View()) {
		pools = append(pools, objectid.Pool{Namespace: o.Namespace, Name: o.Import})
	}
	return sorted(pools)
}

func sorted(pools []objectid.Pool) []objectid.Pool {
	slices.SortFunc(pools, objectid.Pool.Compare)
	return slices.Compact(pools)
}

// Assembled is the result of Assemble.
type Assembled struct {
	// Pools are the pools passed to Assemble, and the pools for which limits newly allow more or
	// fewer endpoints.
	Pools []objectid.Pool
	// Placed states, for each export of Pools that is not withdrawn, whether this cluster imports
	// it. Placement.Member is the exporter.
	Placed []registry.Placement
	// Turned lists the exports that got or lost an Offer.
	Turned []registry.RecordID
	// Ready lists the Pools whose exporting clusters are all imported and Ready.
	Ready []objectid.Pool
	// Revision is the store's revision that has the new Offers of Pools.
	Revision uint64
}

// Assemble writes the Offers of pools, from their exports in the registry.
func (i *Importer) Assemble(pools []objectid.Pool) (out Assembled, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	out.Pools = i.limit(slices.Clone(pools))
	ops := make([]store.Op, 0, len(out.Pools))
	out.Placed = make([]registry.Placement, 0, len(out.Pools))
	view := i.cfg.Store.View()
	out.Revision = view.Revision()
	sourcesOf := i.dated(view, out.Pools)
	for n, p := range out.Pools {
		wanted := map[string]bool{}
		var unnamed []string
		sources := sourcesOf[n]
		if len(sources) > 0 && !slices.ContainsFunc(sources, func(s Source) bool { return !s.well() }) {
			out.Ready = append(out.Ready, p)
		}
		for _, s := range sources {
			if s.unnamed && !s.gone {
				unnamed = append(unnamed, s.Entry.Name)
			}
			if !s.local && !s.gone {
				pl := registry.Placement{Member: s.Entry.Name, Pool: p, Reason: s.reason, Message: s.message,
					Incarnation: s.incarnation}
				if bad := i.unusable[p][pl.Member]; s.imported() && pl.Reason == "" {
					pl.Reason, pl.Message = bad.Reason, bad.Message
				}
				out.Placed = append(out.Placed, pl)
			}
			if !s.imported() {
				continue
			}
			before, had := store.Offers.Get(view, offerID(p, s.Entry.Name))
			o := i.offer(p, &s, before)
			wanted[o.Name] = true
			if !s.local && !had {
				out.Turned = append(out.Turned, registry.RecordID{Cluster: s.Entry.Name, Pool: p})
			}
			ops = append(ops, store.Offers.Put(o))
		}
		i.noteUnnamed(p, unnamed)
		for _, o := range store.Offers.By(view, store.ByImport, p.String()) {
			if !wanted[o.Name] {
				ops = append(ops, store.Offers.Delete(store.ID(o)))
				if !o.Local {
					out.Turned = append(out.Turned, registry.RecordID{Cluster: o.Cluster.Name, Pool: p})
				}
			}
		}
	}
	if len(ops) > 0 {
		revision, err := i.cfg.Store.Apply(ops...)
		if err != nil {
			return out, fmt.Errorf("exports of members: %w", err)
		}
		out.Revision = revision.N
	}
	return out, nil
}

// dated returns the exporting clusters of each pool, and records which exports begin or cease to be
// imported. The caller holds mu.
func (i *Importer) dated(r store.Reader, pools []objectid.Pool) [][]Source {
	out := make([][]Source, len(pools))
	var begun, ceased []registry.RecordID
	var fresh []*Source
	for n, p := range pools {
		out[n] = i.sources(r, p)
		for j := range out[n] {
			s := &out[n][j]
			id := registry.RecordID{Cluster: s.Entry.Name, Pool: p}
			switch {
			case s.local:
			case s.imported() && s.since == 0:
				begun, fresh = append(begun, id), append(fresh, s)
			case !s.imported() && s.since != 0:
				ceased = append(ceased, id)
			}
		}
	}
	if len(begun)+len(ceased) > 0 {
		since := i.cfg.Registry.Imported(begun, ceased)
		for _, s := range fresh {
			s.since = since
		}
	}
	return out
}

// Status returns the status of the import of a pool, with the members' exports as its clusters.
// imported is false if no export is imported.
func (i *Importer) Status(p objectid.Pool, generation int64) (s inferenceapi.InferencePoolImportStatus, imported bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	sources := i.sources(i.cfg.Store.View(), p)
	return StatusOf(sources, generation), slices.ContainsFunc(sources, func(s Source) bool { return s.imported() })
}

// limit applies the ClusterSet's limits on a member's exports and endpoints. It adds the pools for
// which they newly allow more or fewer endpoints. The caller holds mu.
func (i *Importer) limit(pools []objectid.Pool) []objectid.Pool {
	before := i.over
	i.over = map[string]map[objectid.Pool]share{}
	for _, c := range i.cfg.Registry.Counts() {
		allow := i.allow[c.Cluster]
		exports, endpoints := count(allow.Exports, defaultExports), count(allow.Endpoints, defaultEndpoints)
		if c.Exports > exports || c.Endpoints > endpoints {
			i.over[c.Cluster] = i.share(c.Cluster, exports, endpoints)
		}
	}
	names := maps.Clone(before)
	maps.Copy(names, i.over)
	for name := range names {
		for _, e := range i.cfg.Registry.ExportsOf(name) {
			old, limitedThen := before[name][e.Pool]
			next, limited := i.over[name][e.Pool]
			if old != next || limitedThen != limited {
				pools = append(pools, e.Pool)
			}
		}
	}
	return sorted(pools)
}

type share struct {
	none      bool
	endpoints int
}

func (i *Importer) share(member string, exports, endpoints int) map[objectid.Pool]share {
	out, allow := map[objectid.Pool]share{}, i.allow[member]
	for _, e := range i.cfg.Registry.ExportsOf(member) {
		if e.Withdrawn() || !allows(&allow, e.Pool) {
			continue // a withdrawn export keeps its endpoints and uses no limit
		}
		out[e.Pool] = share{none: exports <= 0, endpoints: min(endpoints, len(e.Entry.Endpoints))}
		exports--
		endpoints -= out[e.Pool].endpoints
	}
	return out
}

// The caller holds mu.
func (i *Importer) sources(r store.Reader, p objectid.Pool) (out []Source) {
	taken := Taken(r, p)
	for _, e := range i.cfg.Registry.Exports(nil, p) {
		if e.Withdrawn() && !e.Restored() && !offered(r, p, e.Cluster) {
			continue // the export was never imported, so no requests are in flight
		}
		s := Source{Entry: e.Entry, Draining: e.Draining, most: len(e.Entry.Endpoints), gone: e.Withdrawn(),
			incarnation: e.Incarnation, since: e.Since()}
		s.Entry.Name = e.Cluster
		if e.Entry.RoutingMode == inferenceapi.EndpointMode {
			s.PickerDown = i.pickerDown(picker{p, e.Cluster})
		}
		if m, ok := i.cfg.Registry.Member(e.Cluster); ok {
			s.State = m.State
		}
		allow, member := i.allow[e.Cluster]
		s.unnamed = member && !allows(&allow, p)
		s.reason, s.message = i.problem(r, e)
		if part, limited := i.over[e.Cluster][p]; limited && s.reason == "" {
			s.most = part.endpoints
			if part.none {
				s.reason, s.message = NotAllowedReason, fmt.Sprintf(
					"the ClusterSet lets it export %d pools, and others come first by namespace and name",
					count(allow.Exports, defaultExports))
			}
		}
		if s.reason == "" && e.Unread != "" {
			s.reason, s.message = NotSupportedReason, e.Unread
		}
		if s.reason == "" && slices.Contains(taken, e.Cluster) &&
			!(i.cfg.Own != nil && slices.Contains(i.cfg.Own(p), e.Cluster)) {
			s.reason = ConflictReason
			s.message = fmt.Sprintf("status.clusters of InferencePoolImport %s/%s has an entry %s of another "+
				"controller or user, which stays; remove it there", p.Namespace, p.Name, e.Cluster)
		}
		out = append(out, s)
	}
	// This cluster stays an entry even without other exporters, because routes may name the import.
	if w, ok := i.local[p]; ok {
		out = append(out,
			Source{Entry: inferenceapi.ImportedCluster{Name: i.own, RoutingMode: inferenceapi.EndpointMode, Weight: w},
				State: registry.Ready, local: true})
		slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.Entry.Name, b.Entry.Name) })
	}
	return out
}

// Beyond returns how many exports of a member are beyond the ClusterSet's limit on their number.
func (i *Importer) Beyond(member string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.over[member] {
		if s.none {
			n++
		}
	}
	return n
}

// NoneAllowed reports whether a pool has exports, and the ClusterSet excludes all of them by name
// or number.
func (i *Importer) NoneAllowed(p objectid.Pool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.cfg.Registry.Exports(nil, p)
	return len(list) > 0 && !slices.ContainsFunc(list, func(e *registry.Export) bool {
		allow, member := i.allow[e.Cluster]
		return !i.over[e.Cluster][p].none && (!member || allows(&allow, p))
	})
}

// Taken returns the clusters, sorted, whose entry in an import a user or another controller wrote.
func Taken(r store.Reader, p objectid.Pool) (clusters []string) {
	obj, ok := store.InferencePoolImports.Get(r, p.String())
	if !ok {
		return nil
	}
	for _, c := range obj.Status.Clusters {
		clusters = append(clusters, c.Name)
	}
	slices.Sort(clusters)
	return clusters
}

func (i *Importer) problem(r store.Reader, e *registry.Export) (reason, message string) {
	allow, ok := i.allow[e.Cluster]
	switch {
	case !ok:
		if e.Draining && offered(r, e.Pool, e.Cluster) {
			return "", ""
		}
		return NotAllowedReason, fmt.Sprintf("%s is no member here", e.Cluster)
	case !allows(&allow, e.Pool) && !fault.Injected("allow") && e.Cluster != i.cfg.Self:
		return NotAllowedReason,
			fmt.Sprintf("the ClusterSet of the importing cluster, or of its hub, does not name it: "+
				"add pools: [%[2]s/%[3]s] or namespaces: [%[2]s] to allow of member %[1]s", e.Cluster, e.Pool.Namespace,
				e.Pool.Name)
	case !i.cfg.Namespace(e.Pool.Namespace):
		return NamespaceNotFoundReason, fmt.Sprintf("namespace %s does not exist", e.Pool.Namespace)
	}
	return "", ""
}

func allows(allow *v1alpha1.ClusterSetAllow, p objectid.Pool) bool {
	return slices.Contains(allow.Namespaces, p.Namespace) || slices.Contains(allow.Pools, p.String())
}

// Unnamed returns a member's exports that the ClusterSet does not allow by name, as of the last
// Assemble: at most `most`, and their number n.
func (i *Importer) Unnamed(member string, most int) (first []objectid.Pool, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first = slices.SortedFunc(maps.Keys(i.unnamed[member]), objectid.Pool.Compare)
	return first[:min(most, len(first))], len(first)
}

// The caller holds mu.
func (i *Importer) noteUnnamed(p objectid.Pool, now []string) {
	for _, member := range i.unnamedAt[p] {
		if !slices.Contains(now, member) {
			delete(i.unnamed[member], p)
		}
	}
	for _, member := range now {
		if i.unnamed[member] == nil {
			i.unnamed[member] = map[objectid.Pool]struct{}{}
		}
		i.unnamed[member][p] = struct{}{}
	}
	if i.unnamedAt[p] = now; len(now) == 0 {
		delete(i.unnamedAt, p)
	}
}

// Imports reports whether an export of a member has an Offer.
func (i *Importer) Imports(id registry.RecordID) bool {
	return offered(i.cfg.Store.View(), id.Pool, id.Cluster)
}

func offered(r store.Reader, p objectid.Pool, cluster string) bool {
	_, ok := store.Offers.Get(r, offerID(p, cluster))
	return ok
}

func offerID(p objectid.Pool, cluster string) string {
	return objectid.Join(p.Namespace, store.OfferName(p.Name, cluster))
}

func count(n *int32, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(*n)
}

// offer builds an Offer that shares the entry's lists with the registry. before may be nil.
func (i *Importer) offer(p objectid.Pool, s *Source, before *store.Offer) *store.Offer {
	allow, member := i.allow[s.Entry.Name]
	o := &store.Offer{Import: p.Name, Cluster: s.Entry, Allowed: allow.Addresses, Pods: allow.PodCIDRs,
		Cleartext: allow.Cleartext || !member, Local: s.local, Since: s.since}
	o.Namespace, o.Name = p.Namespace, store.OfferName(p.Name, s.Entry.Name)
	// A former member's Offer keeps its earlier limits while it drains.
	if before != nil && !member {
		o.Allowed, o.Pods, o.Cleartext = before.Allowed, before.Pods, before.Cleartext
	}
	c := &o.Cluster
	c.Conditions, c.Endpoints = nil, c.Endpoints[:min(len(c.Endpoints), s.most)]
	if ready := s.ready(); ready.Status != metav1.ConditionTrue {
		c.Conditions = []metav1.Condition{ready}
	}
	return o
}
