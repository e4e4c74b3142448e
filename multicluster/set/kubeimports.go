package set

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/imports"
)

type task struct {
	pool    objectid.Pool
	exports bool
}

const importWorkers = 4

const (
	importedReason          = "Imported"
	conditionClustersPruned = "ClustersPruned"
	crdOfAnotherReason      = "CRDOfAnotherProject"
)

// Changed queues the imports and PoolExports that depend on changed imports, namespaces and
// ClusterSets, for Lead.
func (k *Kubernetes) Changed(view store.Reader, changes []store.Change) {
	for _, o := range changes {
		switch o.Table {
		case store.InferencePoolImports.Kind():
			if p, ok := objectid.ParsePool(o.ID); ok {
				k.enqueue(task{pool: p})
			}
		case store.Namespaces.Kind(): // exports depend on namespaces; Config.Imported handles imports
			k.enqueue(task{exports: true})
		case store.ClusterSets.Kind(), store.ClusterProperties.Kind():
			k.enqueueAll(view)
		}
	}
}

// Imported implements Config.Imported: it queues the imports of pools for Lead.
func (k *Kubernetes) Imported(pools []objectid.Pool) {
	for _, p := range pools {
		k.enqueue(task{pool: p})
	}
}

// Follow sets the function that returns the status to write into an import, such as Set.Import.
// Call it before Lead.
func (k *Kubernetes) Follow(status func(objectid.Pool, int64) (inferenceapi.InferencePoolImportStatus, bool)) {
	k.status = status
}

func (k *Kubernetes) enqueue(t task) {
	k.mu.Lock()
	q := k.queue
	k.mu.Unlock()
	if q != nil {
		q.Add(t)
	}
}

func (k *Kubernetes) enqueueAll(r store.Reader) {
	for _, o := range store.Offers.All(r) {
		k.enqueue(task{pool: objectid.Pool{Namespace: o.Namespace, Name: o.Import}})
	}
	for _, i := range store.InferencePoolImports.All(r) {
		k.enqueue(task{pool: objectid.PoolOf(i)})
	}
	k.enqueue(task{exports: true})
}

// Lead writes the imports and this cluster's PoolExports until ctx ends. Without a ClusterSet it
// writes nothing.
func (k *Kubernetes) Lead(ctx context.Context) error {
	q := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[task](100*time.Millisecond, 30*time.Second))
	k.mu.Lock()
	k.queue = q
	k.mu.Unlock()
	k.EnqueueAll()
	defer func() {
		k.mu.Lock()
		k.queue = nil
		k.mu.Unlock()
	}()
	return Work(ctx, q, importWorkers, func(t task) { k.work(ctx, q, t) })
}

// Work passes the items of q to do, in a number of goroutines. It shuts q down when ctx ends.
func Work[T comparable](ctx context.Context, q workqueue.TypedRateLimitingInterface[T], workers int,
	do func(item T)) error {
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return ctx.Err()
				}
				do(item)
				q.Done(item)
			}
		})
	}
	<-ctx.Done()
	q.ShutDown()
	return group.Wait()
}

func (k *Kubernetes) work(ctx context.Context, q workqueue.TypedRateLimitingInterface[task], t task) {
	var err error
	if t.exports {
		err = k.writeExports(ctx)
	} else {
		var left map[string]string
		left, err = k.writeImport(ctx, t.pool)
		if k.cfg.Hub == nil {
			k.note(t.pool, left, err)
		}
		if len(left) > 0 && ctx.Err() == nil {
			q.AddAfter(t, k.triesAgain(t.pool, left))
		}
	}
	if err == nil {
		q.Forget(t)
		return
	}
	if ctx.Err() == nil {
		if q.NumRequeues(t) == 0 {
			k.cfg.Log.Warn("an object of the cluster set cannot be written; trying again", "pool", t.pool.String(),
				"error", brief(err))
		}
		q.AddRateLimited(t)
	}
}

func (k *Kubernetes) note(p objectid.Pool, left map[string]string, err error) {
	k.mu.Lock()
	_, had := k.problems[p]
	delete(k.problems, p)
	problem := ""
	switch {
	case err != nil:
		problem = "its clusters cannot be written: " + brief(err)
	case len(left) > 0:
		problem = "it does not list all of its clusters: " + leftOut(left)
	}
	if problem != "" {
		owner := store.RefOf(store.InferencePoolImports, p.String())
		k.problems[p] = report.Report{Owner: owner, Findings: []report.Finding{{
			Severity: report.Warning, Owner: owner, Field: "status", Problem: problem,
		}}}
	}
	k.mu.Unlock()
	if had || problem != "" {
		k.report()
	}
}

func (k *Kubernetes) report() {
	if k.cfg.Board == nil { // a hub has no board
		return
	}
	set := Selected(k.cfg.Store.View())
	k.mu.Lock()
	reports := slices.Collect(maps.Values(k.problems))
	if set != nil && k.pruned {
		reports = append(reports, report.Report{Owner: store.ClusterSets.Ref(set), Conditions: []report.Condition{{
			Type: conditionClustersPruned, Status: report.True, Reason: crdOfAnotherReason, Message: prunedMessage,
		}}})
	}
	k.mu.Unlock()
	k.cfg.Board.Replace(status.Instance(status.Members, "imports"), reports...)
}

const writeTimeout = 30 * time.Second

// left has, for each cluster that was left out, the reason.
func (k *Kubernetes) writeImport(ctx context.Context, p objectid.Pool) (left map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if k.cfg.Hub != nil {
		written, err := k.writeAsHub(ctx, p)
		written.Pruned = k.prunes()
		k.cfg.Hub.Written(p, written, err)
		return written.Left, err
	}
	view := k.cfg.Store.View()
	set := Selected(view)
	key := p.String()
	obj, exists := store.InferencePoolImports.Get(view, key)
	k.mu.Lock()
	decided, last := k.exports != nil, k.written[p]
	k.mu.Unlock()
	// write nothing until the ClusterSet and the stored records are known
	if !decided || !k.writable(p.Namespace) {
		return nil, nil
	}
	generation := int64(1)
	if exists {
		generation = obj.Generation
	}
	status, imported := k.status(p, generation)
	if !imported {
		return nil, k.withdrawImport(ctx, p, obj, exists)
	}
	if !exists {
		if err := k.makeImport(ctx, p, set != nil && set.Spec.CreateNamespaces); err != nil {
			return nil, err
		}
	}
	live := &inferenceapi.InferencePoolImportStatus{}
	if exists {
		live = k.live(obj)
	}
	want, left := k.acceptable(p, k.wantedStatus(&status, live, metav1.NewTime(time.Now().Truncate(time.Second))), live)
	// The read status, live, may lag behind the last write.
	if k.mirrors(live, &want) && (last == nil || equality.Semantic.DeepEqual(*last, want)) {
		return left, nil
	}
	_, err = k.writeAccepted(ctx, p, "", want, left)
	want = lessClusters(want, left)
	k.mu.Lock()
	k.written[p] = &want
	k.mu.Unlock()
	return left, err
}

// live returns the newest status of an import, which is not nil.
func (k *Kubernetes) live(obj *inferenceapi.InferencePoolImport) *inferenceapi.InferencePoolImportStatus {
	if live := k.cfg.Live(store.InferencePoolImports.Ref(obj)); live != nil {
		return live
	}
	return &inferenceapi.InferencePoolImportStatus{}
}

func (k *Kubernetes) makeImport(ctx context.Context, p objectid.Pool, namespaces bool) error {
	labels := map[string]any{v1alpha1.ImportedByLabel: k.maker()}
	u := &unstructured.Unstructured{
		Object: map[string]any{"metadata": map[string]any{"namespace": p.Namespace, "name": p.Name, "labels": labels}},
	}
	u.SetGroupVersionKind(importKind.GroupVersion().WithKind(store.InferencePoolImports.Kind()))
	create := func() error {
		_, err := k.client.Resource(importKind).Namespace(p.Namespace).
			Create(ctx, u, metav1.CreateOptions{FieldManager: k.manager()})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	err := create()
	if err != nil && missing(err) && namespaces {
		ns := &unstructured.Unstructured{
			Object: map[string]any{"metadata": map[string]any{"name": p.Namespace, "labels": labels}},
		}
		ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if _, err := k.client.Resource(namespaceKind).Create(ctx, ns,
			metav1.CreateOptions{FieldManager: k.manager()}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", p.Namespace, err)
		}
		err = create()
	}
	return err
}

// writeStatus applies this process's part of an import's status, without fields that the CRD lacks
// or that other managers own. It returns the applied part; its Controllers are empty if nothing was
// applied.
func (k *Kubernetes) writeStatus(ctx context.Context, p objectid.Pool, w writing,
	want inferenceapi.InferencePoolImportStatus) (inferenceapi.InferencePoolImportStatus, error) {
	var nothing inferenceapi.InferencePoolImportStatus
	if k.cfg.Hub != nil && k.prunes() {
		return k.writePruned(ctx, p, w, want)
	}
	w.force = false
	var conflict error
	for range 2 {
		err := k.applyAs(ctx, w, importKind, "InferencePoolImport", p.Namespace, p.Name, map[string]any{"status": want},
			"status")
		if undeclared(err) {
			k.setPruned(true)
			return k.writePruned(ctx, p, w, want)
		}
		if !apierrors.IsConflict(err) {
			if err != nil {
				return nothing, errors.Join(err, conflict)
			}
			k.setPruned(false)
			return want, conflict
		}
		if conflict != nil {
			return nothing, err
		}
		conflict = err
		if want = without(want, err); len(want.Controllers[0].ExportingClusters) == 0 {
			return nothing, conflict
		}
	}
	return nothing, conflict
}

// without removes the fields that a conflict attributes to another manager: single clusters, or all
// conditions.
func without(s inferenceapi.InferencePoolImportStatus, conflict error) inferenceapi.InferencePoolImportStatus {
	var status apierrors.APIStatus
	if !errors.As(conflict, &status) || status.Status().Details == nil {
		return s
	}
	left := map[string]string{}
	for _, cause := range status.Status().Details.Causes {
		field := cause.Field
		if strings.HasPrefix(field, ".status.conditions") || strings.HasPrefix(field, ".status.observedGeneration") {
			s.Conditions, s.ObservedGeneration = nil, 0
		} else if name, ok := strings.CutPrefix(field, `.status.clusters[name="`); ok {
			name, _, _ = strings.Cut(name, `"`)
			left[name] = ""
		}
	}
	return lessClusters(s, left)
}

// withdrawImport deletes an import that this controller created and in which no other controller
// has entries. From other imports, it removes this controller's part of the status.
func (k *Kubernetes) withdrawImport(ctx context.Context, p objectid.Pool, obj *inferenceapi.InferencePoolImport,
	exists bool) error {
	k.mu.Lock()
	delete(k.written, p)
	k.mu.Unlock()
	if !exists {
		return nil
	}
	live := k.cfg.Live(store.InferencePoolImports.Ref(obj))
	if live == nil {
		return nil
	}
	mine, ours := ownEntries(live, k.controller())
	others := slices.ContainsFunc(live.Clusters, func(c inferenceapi.ImportedCluster) bool {
		return !slices.Contains(mine, c.Name)
	})
	// A created import without status may belong to another controller, which has not written it
	// yet.
	if made := obj.Labels[v1alpha1.ImportedByLabel]; made != "" && !others && (made == k.maker() || ours) {
		uid := obj.UID
		err := k.client.Resource(importKind).Namespace(p.Namespace).Delete(ctx, p.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if !ours {
		return nil
	}
	return k.apply(ctx, importKind, "InferencePoolImport", p.Namespace, p.Name, map[string]any{}, "status")
}

func ownEntries(s *inferenceapi.InferencePoolImportStatus, controller upstream.ControllerName) (clusters []string,
	ok bool) {
	p := part(s, controller)
	for _, c := range p.ExportingClusters {
		clusters = append(clusters, string(c.Name))
	}
	return clusters, p.Name != ""
}

// part returns a controller's entry in status.controllers of an import; empty: it has none.
func part(s *inferenceapi.InferencePoolImportStatus, name upstream.ControllerName) (p upstream.ImportController) {
	if i := slices.IndexFunc(s.Controllers,
		func(c upstream.ImportController) bool { return c.Name == name }); i >= 0 {
		p = s.Controllers[i]
	}
	return p
}

// wantedStatus returns this controller's part of an import's status, without endpoints, which never
// pass through an API server.
func (k *Kubernetes) wantedStatus(status, live *inferenceapi.InferencePoolImportStatus,
	now metav1.Time) inferenceapi.InferencePoolImportStatus {
	out := *deepcopy.Of(status)
	entry := upstream.ImportController{Name: k.controller()}
	for i := range out.Clusters {
		c := &out.Clusters[i]
		c.Endpoints = nil
		var before []metav1.Condition
		if i := slices.IndexFunc(live.Clusters, func(l inferenceapi.ImportedCluster) bool {
			return l.Name == c.Name
		}); i >= 0 {
			before = live.Clusters[i].Conditions
		}
		if k.cfg.Hub != nil {
			c.Conditions = append(c.Conditions, importedCondition(c.Conditions))
		}
		settle(before, now, c.Conditions)
		entry.ExportingClusters = append(entry.ExportingClusters,
			upstream.ExportingCluster{Name: upstream.ClusterName(c.Name)})
	}
	settle(live.Conditions, now, out.Conditions)
	for _, c := range out.Conditions {
		if c.Type == imports.ConditionAccepted {
			entry.Conditions = []metav1.Condition{c}
		}
	}
	out.Controllers = []upstream.ImportController{entry}
	return out
}

// importedCondition makes the condition Imported of a cluster in an import that a hub writes. Its
// transition time states since when the hub imports the cluster, because the member has no Offer of
// it.
func importedCondition(list []metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionImported, Status: metav1.ConditionTrue, Reason: importedReason}
	ready := meta.FindStatusCondition(list, imports.ConditionReady)
	if ready == nil {
		return c
	}
	if c.ObservedGeneration = ready.ObservedGeneration; ready.Reason == imports.NotAllowedReason {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ready.Reason, ready.Message
	}
	return c
}

// settle sets the transition times in list: the time in before if the status is the same, otherwise
// now.
func settle(before []metav1.Condition, now metav1.Time, list []metav1.Condition) {
	for i := range list {
		c := &list[i]
		c.LastTransitionTime = now
		if j := slices.IndexFunc(before, func(b metav1.Condition) bool {
			return b.Type == c.Type && b.Status == c.Status
		}); j >= 0 {
			c.LastTransitionTime = before[j].LastTransitionTime
		}
	}
}

func (k *Kubernetes) mirrors(live, want *inferenceapi.InferencePoolImportStatus) bool {
	mine := part(live, k.controller())
	if mine.Name == "" ||
		!equality.Semantic.DeepEqual(mine.ExportingClusters, want.Controllers[0].ExportingClusters) {
		return false
	}
	pruned := meta.FindStatusCondition(mine.Conditions, conditionClustersPruned) != nil
	switch {
	case pruned && k.cfg.Hub == nil:
		return true
	case k.cfg.Hub != nil && pruned != k.prunes():
		return false
	}
	return has(live, want, !pruned)
}

func has(live, want *inferenceapi.InferencePoolImportStatus, conditions bool) bool {
	if !contains(live.Clusters, want.Clusters) {
		return false
	}
	// Without conditions: they follow from conditions of the import's clusters.
	return !conditions || contains(live.Conditions, want.Conditions) &&
		live.ObservedGeneration == want.ObservedGeneration
}

func contains[T any](list, items []T) bool {
	for _, item := range items {
		if !slices.ContainsFunc(list, func(o T) bool { return equality.Semantic.DeepEqual(o, item) }) {
			return false
		}
	}
	return true
}

func (k *Kubernetes) writeExports(ctx context.Context) error {
	own := ownName(k.cfg.Store.View())
	k.mu.Lock()
	want := maps.Clone(k.exports)
	decided := k.exports != nil
	k.mu.Unlock()
	if own == "" || !decided { // remove nothing before the first decision on exports
		return nil
	}
	have, err := k.list(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range have {
		if p.Spec.Cluster != own {
			continue
		}
		pool := recordID(&p).Pool
		entry, wanted := want[pool]
		switch {
		case !wanted:
			failed = append(failed, k.dropPoolExport(ctx, pool, own))
		case p.Status.Entry != nil && equality.Semantic.DeepEqual(*p.Status.Entry, entry) &&
			settled(p.Status.Conditions):
			delete(want, pool)
		}
	}
	for pool, entry := range want {
		failed = append(failed, k.savePoolExport(ctx, pool, own, v1alpha1.PoolExportStatus{Entry: &entry,
			Conditions: ownConditions()}))
	}
	return errors.Join(failed...)
}
