package imports

import (
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Reasons of placements: why this cluster does not import an export.
const (
	NotAllowedReason        = "NotAllowed"
	NamespaceNotFoundReason = "NamespaceNotFound"
)

// Reasons of the condition Ready of an exporting cluster, if it is not True.
const (
	reasonDraining    = "Draining"
	reasonStale       = "Stale"
	reasonUnreachable = "Unreachable"
)

const (
	defaultExports   = 1000   // ClusterSetAllow.Exports
	defaultEndpoints = 10_000 // ClusterSetAllow.Endpoints
)

// Config is what an Importer needs.
type Config struct {
	Registry *registry.Registry
	Store    *store.Store
	// Namespace reports whether a namespace exists here; nil: all do.
	Namespace func(name string) bool
}

// Importer is safe for concurrent use.
type Importer struct {
	cfg Config

	mu    sync.Mutex
	allow map[string]v1alpha1.ClusterSetAllow // by member
}

// New makes an importer that allows members nothing yet.
func New(c Config) *Importer {
	if c.Namespace == nil {
		c.Namespace = func(string) bool { return true }
	}
	return &Importer{cfg: c, allow: map[string]v1alpha1.ClusterSetAllow{}}
}

// SetAllow replaces what each member may have imported, and assembles everything again.
func (i *Importer) SetAllow(allow map[string]v1alpha1.ClusterSetAllow) ([]registry.Placement, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.allow = allow
	return i.assemble(i.all())
}

// all lists the pools that a member exports, or that have an Offer. mu is held.
func (i *Importer) all() (pools []registry.Pool) {
	for _, m := range i.cfg.Registry.Members(nil) {
		for _, e := range i.cfg.Registry.ExportsOf(m.Name) {
			pools = append(pools, e.Pool)
		}
	}
	for _, o := range store.Offers.All(i.cfg.Store.View()) {
		pools = append(pools, registry.Pool{Namespace: o.Namespace, Name: o.Import})
	}
	slices.SortFunc(pools, registry.Pool.Compare)
	return slices.Compact(pools)
}

// Assemble brings the Offers of some pools up to date with the registry. It returns where these pools' exports of other clusters stand
// here, for their exporters: Placement.Member is the exporting one.
func (i *Importer) Assemble(pools []registry.Pool) ([]registry.Placement, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.assemble(pools)
}

func (i *Importer) assemble(pools []registry.Pool) (placed []registry.Placement, err error) {
	var ops []store.Op
	view := i.cfg.Store.View()
	states := map[string]registry.State{}
	for _, m := range i.cfg.Registry.Members(nil) {
		states[m.Name] = m.State
	}
	for _, p := range pools {
		key := p.Namespace + "/" + p.Name
		wanted := map[string]bool{}
		for _, e := range i.cfg.Registry.Exports(nil, p) {
			at := registry.Placement{Member: e.Cluster, Pool: p}
			if at.Reason, at.Message = i.problem(&e); at.Reason != "" {
				placed = append(placed, at)
				continue
			}
			placed = append(placed, at)
			o := i.offer(&e, states[e.Cluster])
			wanted[o.Name] = true
			ops = append(ops, store.Offers.Put(o)) // one that is equal changes nothing
		}
		for _, o := range store.Offers.By(view, store.ByImport, key) {
			if !wanted[o.Name] {
				ops = append(ops, store.Offers.Delete(store.ID(o)))
			}
		}
	}
	if len(ops) > 0 {
		if _, err := i.cfg.Store.Apply(ops...); err != nil {
			return placed, fmt.Errorf("exports of members: %w", err)
		}
	}
	return placed, nil
}

// problem returns why an export is not imported.
func (i *Importer) problem(e *registry.Export) (reason, message string) {
	allow, ok := i.allow[e.Cluster]
	switch {
	case !ok:
		if e.Draining {
			return "", "" // the member has left the set, and its exports drain
		}
		return NotAllowedReason, fmt.Sprintf("%s is no member here", e.Cluster)
	case len(allow.Namespaces) > 0 && !slices.Contains(allow.Namespaces, e.Pool.Namespace):
		return NotAllowedReason, fmt.Sprintf("the ClusterSet does not let it export to namespace %s", e.Pool.Namespace)
	case !i.cfg.Namespace(e.Pool.Namespace):
		return NamespaceNotFoundReason, fmt.Sprintf("namespace %s does not exist", e.Pool.Namespace)
	}
	if most := count(allow.Exports, defaultExports); !i.first(e, most) {
		return NotAllowedReason, fmt.Sprintf("the ClusterSet lets it export %d pools, and others come first by namespace and name", most)
	}
	return "", ""
}

func count(is *int32, otherwise int) int {
	if is == nil {
		return otherwise
	}
	return int(*is)
}

// first reports whether an export is among the first ones of its member.
func (i *Importer) first(e *registry.Export, most int) bool {
	before := 0
	for _, o := range i.cfg.Registry.ExportsOf(e.Cluster) {
		if o.Pool.Compare(e.Pool) < 0 {
			if before++; before >= most {
				return false
			}
		}
	}
	return most > 0
}

// room is how many endpoints an export may have, after those of its member's exports before it.
func (i *Importer) room(e *registry.Export) int {
	left := count(i.allow[e.Cluster].Endpoints, defaultEndpoints)
	for _, o := range i.cfg.Registry.ExportsOf(e.Cluster) {
		if o.Pool.Compare(e.Pool) >= 0 {
			break
		}
		left -= len(o.Entry.Endpoints)
	}
	return max(left, 0)
}

// offer is an export as this cluster's translation reads it.
func (i *Importer) offer(e *registry.Export, state registry.State) *store.Offer {
	allow := i.allow[e.Cluster]
	o := &store.Offer{Import: e.Pool.Name, Cluster: *e.Entry.DeepCopy(), Allowed: allow.Addresses, Pods: allow.PodCIDRs}
	o.Namespace, o.Name = e.Pool.Namespace, store.OfferName(e.Pool.Name, e.Cluster)
	c := &o.Cluster
	c.Name, c.Conditions = e.Cluster, nil
	c.Endpoints = c.Endpoints[:min(len(c.Endpoints), i.room(e))]
	switch {
	case e.Draining:
		c.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: reasonDraining, Message: "the cluster has withdrawn its export, or drains"}}
	case state == registry.Stale:
		c.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionUnknown, Reason: reasonStale, Message: "the cluster is connected and silent"}}
	case state == registry.Unreachable:
		c.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionUnknown, Reason: reasonUnreachable, Message: "the cluster is not connected"}}
	}
	return o
}
