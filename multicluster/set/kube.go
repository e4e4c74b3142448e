package set

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
)

var (
	namespaceKind  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	leaseKind      = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	poolExportKind = schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version,
		Resource: "poolexports"}
	clusterSetKind = schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version,
		Resource: "clustersets"}
	importKind = schema.GroupVersionResource{Group: inferenceapi.Group, Version: "v1alpha1",
		Resource: "inferencepoolimports"}
)

// Field managers for server-side apply. The API server removes a field that its manager no longer
// applies.
const (
	fieldManager = "penstock-multicluster"
	hubManager   = "penstock-hub"
)

func (k *Kubernetes) manager() string {
	if k.cfg.Hub != nil {
		return hubManager
	}
	return fieldManager
}

func (k *Kubernetes) maker() string {
	if k.cfg.Hub != nil {
		return hubManager
	}
	return "penstock"
}

func (k *Kubernetes) controller() upstream.ControllerName {
	if k.cfg.Hub != nil {
		return HubController
	}
	return shape.MultiCluster
}

// KubernetesConfig configures a Kubernetes.
type KubernetesConfig struct {
	REST *rest.Config
	// Namespace and Lease name the Lease whose number of transitions is the epoch.
	Namespace, Lease string
	// Namespaces are the namespaces in which objects are read and written; empty: all namespaces.
	Namespaces []string
	Store      *store.Store
	Board      Board
	// Live returns the newest status of an import in the API server; nil: it has no status.
	Live func(ref report.Ref) *inferenceapi.InferencePoolImportStatus
	// Hub is set in a hub, which writes imports into a member's API server. nil: this process is
	// the cluster's Penstock.
	Hub *HubWriter
	Log *slog.Logger
}

// HubWriter configures a hub's writes to one member.
type HubWriter struct {
	// UID identifies the hub, and Epoch its leader. The hub skips imports of later leaders and,
	// without TakeOver, of other hubs.
	UID      string
	Epoch    uint64
	TakeOver bool
	// Member is the name of the member into whose API server the hub writes. IsMember reports
	// whether a name belongs to a member. The hub skips an import that this leader has written as
	// another member: both names lead to the same cluster.
	Member   string
	IsMember func(name string) bool
	// CreateNamespaces reports whether to create the namespaces of imports.
	CreateNamespaces func() bool
	// Version returns the resourceVersion of the status that Live returns. The API server rejects
	// the write if the object has changed since.
	Version func(ref report.Ref) string
	// Settled reports whether the hub has read a cluster's exports, or no longer waits for them.
	// Otherwise it keeps the cluster's entries.
	Settled func(cluster string) bool
	// Pruned means that the installed CRD lacks status.clusters. The hub then writes the clusters
	// into conditions.
	Pruned bool
	// Written is called after each write of an import, and when there is nothing to write.
	Written func(p objectid.Pool, w Written, err error)
}

// Written is the result of a hub's write of an import.
type Written struct {
	// Clusters are the exporting clusters that have an entry of the hub in the import. Left has,
	// for each cluster without an entry, the reason.
	Clusters []string
	Left     map[string]string
	// Pruned means that the API server dropped status.clusters, because the installed CRD lacks it.
	Pruned bool
}

// HubController is the controller name of a hub, in the status.controllers of an import and the
// status.parents of a pool.
const HubController = shape.Hub

// Kubernetes writes a cluster's InferencePoolImports and PoolExports, which together with the
// ClusterSet's status are its Records.
type Kubernetes struct {
	cfg    KubernetesConfig
	client dynamic.Interface
	status func(objectid.Pool, int64) (inferenceapi.InferencePoolImportStatus, bool)

	mu       sync.Mutex
	members  map[string]v1alpha1.ClusterSetMemberStatus
	exports  map[objectid.Pool]inferenceapi.ImportedCluster // exports of this cluster; nil: not decided yet
	kept     map[registry.RecordID]bool                     // PoolExports of members; nil: not listed yet
	queue    workqueue.TypedRateLimitingInterface[task]     // nil: this process does not lead
	problems map[objectid.Pool]report.Report
	known    map[registry.RecordID][]metav1.Condition // conditions of PoolExports
	written  map[objectid.Pool]*inferenceapi.InferencePoolImportStatus
	rejected map[objectid.Pool]map[string]rejection
	pruned   bool
}

// NewKubernetes makes a Kubernetes. It writes nothing before Lead or Save is called.
func NewKubernetes(c KubernetesConfig) (*Kubernetes, error) {
	rc := rest.CopyConfig(c.REST)
	rc.QPS = -1 // no limit, because only changed objects are written
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	return &Kubernetes{
		cfg: c, client: client, pruned: c.Hub != nil && c.Hub.Pruned,
		members:  map[string]v1alpha1.ClusterSetMemberStatus{},
		problems: map[objectid.Pool]report.Report{}, known: map[registry.RecordID][]metav1.Condition{},
		written:  map[objectid.Pool]*inferenceapi.InferencePoolImportStatus{},
		rejected: map[objectid.Pool]map[string]rejection{},
	}, nil
}

// Identity implements Config.Identity. It returns the UID of namespace kube-system and the number
// of transitions of the Lease. Only the holder of the Lease may call it.
func (k *Kubernetes) Identity(ctx context.Context) (uid string, epoch uint64, err error) {
	if uid, err = ClusterUID(ctx, k.client); err != nil {
		return "", 0, err
	}
	lease, err := k.client.Resource(leaseKind).Namespace(k.cfg.Namespace).Get(ctx, k.cfg.Lease, metav1.GetOptions{})
	if err != nil {
		return "", 0, fmt.Errorf("lease %s: %w", k.cfg.Lease, err)
	}
	transitions, _, err := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions")
	if err != nil {
		return "", 0, fmt.Errorf("lease %s: %w", k.cfg.Lease, err)
	}
	return uid, uint64(max(transitions, 0)) + 1, nil
}

// ClusterUID returns the UID of namespace kube-system, which is the cluster's.
func ClusterUID(ctx context.Context, client dynamic.Interface) (string, error) {
	list, err := client.Resource(namespaceKind).List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + metav1.NamespaceSystem})
	if err != nil {
		return "", fmt.Errorf("namespace %s: %w", metav1.NamespaceSystem, err)
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("there is no namespace %s, whose UID is the cluster's", metav1.NamespaceSystem)
	}
	return string(list.Items[0].GetUID()), nil
}

// Load implements Records. Members come from the ClusterSet's status, and exports from the
// PoolExports.
func (k *Kubernetes) Load(ctx context.Context) (out []registry.Record, err error) {
	set := Selected(k.cfg.Store.View())
	if set == nil {
		return nil, nil
	}
	u, err := k.client.Resource(clusterSetKind).Namespace("").List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + set.Name})
	if err != nil {
		return nil, fmt.Errorf("ClusterSet %s: %w", set.Name, err)
	}
	uids := map[string]string{}
	for i := range u.Items {
		var c v1alpha1.ClusterSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Items[i].Object, &c); err != nil {
			return nil, fmt.Errorf("ClusterSet %s: %w", set.Name, err)
		}
		k.mu.Lock()
		clear(k.members)
		for _, m := range c.Status.Members {
			k.members[m.Name], uids[m.Name] = m, m.UID
			out = append(out, memberRecord(m))
		}
		k.mu.Unlock()
	}
	own, _ := nameOf(k.cfg.Store.View(), set)
	list, err := k.list(ctx)
	if err != nil {
		return out, err
	}
	var damaged []error
	kept := map[registry.RecordID]bool{}
	for _, p := range list {
		if p.Spec.Cluster == own {
			continue
		}
		kept[recordID(&p)] = true
		switch {
		case p.Status.Entry == nil || p.Status.Epoch < 0 || p.Status.Sequence < 0:
			damaged = append(damaged, fmt.Errorf("PoolExport %s/%s has no status", p.Namespace, p.Name))
		default:
			out = append(out, exportRecord(&p))
		}
	}
	k.mu.Lock()
	k.kept = kept
	k.mu.Unlock()
	return out, errors.Join(damaged...)
}

func stampOf(epoch, sequence int64) registry.Stamp {
	return registry.Stamp{Epoch: uint64(max(epoch, 0)), Sequence: uint64(max(sequence, 0))}
}

func (k *Kubernetes) list(ctx context.Context) (out []v1alpha1.PoolExport, err error) {
	namespaces := k.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, ns := range namespaces {
		u, err := k.client.Resource(poolExportKind).Namespace(ns).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("PoolExports: %w", err)
		}
		for i := range u.Items {
			var p v1alpha1.PoolExport
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Items[i].Object, &p); err != nil {
				return nil, fmt.Errorf("PoolExport %s/%s: %w", u.Items[i].GetNamespace(), u.Items[i].GetName(), err)
			}
			out = append(out, p)
		}
	}
	k.know(out)
	return out, nil
}

// Save implements Records. It skips exports whose namespace does not exist here.
func (k *Kubernetes) Save(ctx context.Context, changed []registry.Record, gone []registry.RecordID) error {
	var failed []error
	members := false
	k.mu.Lock()
	for _, r := range changed {
		if r.Pool == (objectid.Pool{}) {
			k.members[r.Cluster], members = memberStatus(r), true
		}
	}
	for _, id := range gone {
		if id.Pool == (objectid.Pool{}) {
			delete(k.members, id.Cluster)
			members = true
		}
	}
	list := slices.SortedFunc(maps.Values(k.members),
		func(a, b v1alpha1.ClusterSetMemberStatus) int { return strings.Compare(a.Name, b.Name) })
	k.mu.Unlock()
	if set := Selected(k.cfg.Store.View()); members && set != nil {
		failed = append(failed, k.saveMembers(ctx, set.Name, list))
	}
	for _, r := range changed {
		if r.Pool != (objectid.Pool{}) {
			k.setKept(r.RecordID, true) // even if the write fails: it may have taken effect
			failed = append(failed, k.savePoolExport(ctx, r.Pool, r.Cluster, exportStatus(r)))
		}
	}
	for _, id := range gone {
		if id.Pool != (objectid.Pool{}) && k.isKept(id) {
			err := k.dropPoolExport(ctx, id.Pool, id.Cluster)
			k.setKept(id, err != nil)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// isKept reports whether an export may have a PoolExport. Save deletes no others, so that a member
// cannot cause any number of deletions.
func (k *Kubernetes) isKept(id registry.RecordID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept == nil || k.kept[id]
}

func (k *Kubernetes) setKept(id registry.RecordID, kept bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.kept == nil:
	case kept:
		k.kept[id] = true
	default:
		delete(k.kept, id)
	}
}

func (k *Kubernetes) saveMembers(ctx context.Context, set string, list []v1alpha1.ClusterSetMemberStatus) error {
	write := func() error {
		status := map[string]any{"status": v1alpha1.ClusterSetStatus{Members: list}}
		return k.apply(ctx, clusterSetKind, "ClusterSet", "", set, status, "status")
	}
	err := write()
	if undeclared(err) { // the installed CRD lacks fields, because it is older
		list = slices.Clone(list)
		for i := range list {
			list[i].Started = nil
		}
		err = write()
	}
	return err
}

func (k *Kubernetes) savePoolExport(ctx context.Context, p objectid.Pool, cluster string,
	status v1alpha1.PoolExportStatus) error {
	if !k.writable(p.Namespace) {
		return nil
	}
	status.Conditions = k.conditions(registry.RecordID{Cluster: cluster, Pool: p}, status.Conditions)
	write := func() error {
		return k.apply(ctx, poolExportKind, "PoolExport", p.Namespace, poolExportName(p.Name, cluster), map[string]any{
			"spec": v1alpha1.PoolExportSpec{Cluster: cluster, Pool: p.Name}, "status": status,
		})
	}
	err := write()
	if undeclared(err) { // the installed CRD lacks fields, because it is older
		status.Conditions = nil
		err = write()
	}
	if undeclared(err) && status.Since != nil { // the installed CRD also lacks status.since
		status.Since = nil
		err = write()
	}
	if missing(err) {
		return nil
	}
	return err
}

func (k *Kubernetes) dropPoolExport(ctx context.Context, p objectid.Pool, cluster string) error {
	if !k.writable(p.Namespace) {
		return nil
	}
	k.mu.Lock()
	delete(k.known, registry.RecordID{Cluster: cluster, Pool: p})
	k.mu.Unlock()
	err := k.client.Resource(poolExportKind).Namespace(p.Namespace).Delete(ctx, poolExportName(p.Name, cluster),
		metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (k *Kubernetes) writable(namespace string) bool {
	return len(k.cfg.Namespaces) == 0 || slices.Contains(k.cfg.Namespaces, namespace)
}

// missing reports whether an object's namespace does not exist or terminates.
func missing(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces") ||
		apierrors.HasStatusCause(err, "NamespaceTerminating")
}

func (k *Kubernetes) apply(ctx context.Context, resource schema.GroupVersionResource, kind, namespace, name string,
	fields any, sub ...string) error {
	return k.applyAs(ctx, writing{force: true}, resource, kind, namespace, name, fields, sub...)
}

// writing has the options of a server-side apply. Without force, fields of other managers cause a
// conflict. version is the expected resourceVersion; "": any. dry stores nothing.
type writing struct {
	force, dry bool
	version    string
}

func (k *Kubernetes) applyAs(ctx context.Context, w writing, resource schema.GroupVersionResource, kind, namespace,
	name string, fields any, sub ...string) error {
	options := metav1.ApplyOptions{FieldManager: k.manager(), Force: w.force}
	if w.dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	raw, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(raw, &u.Object) // does not convert integers to floats
	}
	if err == nil {
		u.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetResourceVersion(w.version)
		_, err = k.client.Resource(resource).Namespace(namespace).Apply(ctx, name, u, options, sub...)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, strings.TrimPrefix(objectid.Join(namespace, name), "/"), err)
	}
	return nil
}

// ErrFenced means that the hub did not write an object, because another hub or a later leader
// writes it.
var ErrFenced = errors.New("this hub does not write the object")

// Enqueue queues the imports of pools for Lead, which writes them if they have changed.
func (k *Kubernetes) Enqueue(pools ...objectid.Pool) { k.Imported(pools) }

const longestName = 253

// poolExportName returns POOL.CLUSTER. If that is too long, a hash replaces the end of POOL.
func poolExportName(pool, cluster string) string {
	if most := longestName - 1 - len(cluster); len(pool) > most {
		sum := sha256.Sum256([]byte(pool))
		pool = strings.TrimRight(pool[:most-17], "-.") + "-" + hex.EncodeToString(sum[:8])
	}
	return pool + "." + cluster
}

// SetExports replaces this cluster's exports. Lead writes a PoolExport for each.
func (k *Kubernetes) SetExports(list []export.Export) {
	now := map[objectid.Pool]inferenceapi.ImportedCluster{}
	for _, e := range list {
		entry := deepcopy.Of(&e.Entry)
		entry.Endpoints = nil
		now[e.Pool] = *entry
	}
	k.mu.Lock()
	first := k.exports == nil
	k.exports = now
	k.mu.Unlock()
	if first {
		k.EnqueueAll()
	} else {
		k.enqueue(task{exports: true})
	}
}
