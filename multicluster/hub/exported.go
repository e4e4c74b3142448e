package hub

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/set"
)

const exportedWorkers = 2

// exported writes the condition Exported of pools. Each patch carries the read resource version,
// because other controllers write status.parents, too.
type exported struct {
	cluster *cluster
	source  *kube.Source
	queue   workqueue.TypedRateLimitingInterface[objectid.Pool]
}

func newExported(c *cluster, source *kube.Source) *exported {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[objectid.Pool](50*time.Millisecond, 30*time.Second)
	return &exported{c, source, workqueue.NewTypedRateLimitingQueue(limit)}
}

func (e *exported) enqueue(pools ...objectid.Pool) {
	for _, p := range pools {
		e.queue.Add(p)
	}
}

func (e *exported) run(ctx context.Context) error {
	for _, pool := range store.InferencePools.All(e.cluster.store.View()) {
		e.enqueue(objectid.PoolOf(pool))
	}
	return set.Work(ctx, e.queue, exportedWorkers, func(p objectid.Pool) {
		err := e.write(ctx, p)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			e.queue.Forget(p)
		case ctx.Err() == nil:
			if e.queue.NumRequeues(p) == 3 {
				e.cluster.hub.log.Warn("the condition of a pool cannot be written; trying again", "member",
					e.cluster.name, "pool", p.String(), "error", err)
			}
			e.queue.AddRateLimited(p)
		}
	})
}

func (e *exported) write(ctx context.Context, p objectid.Pool) error {
	pool, ok := store.InferencePools.Get(e.cluster.store.View(), p.String())
	if !ok {
		return nil
	}
	live, ok := e.source.Live(store.InferencePools.Ref(pool))
	if !ok {
		return nil
	}
	condition, asked, known := e.cluster.hub.out.Condition(e.cluster.name, p)
	if !known {
		return nil // the hub enqueues the pool once the condition is known
	}
	old := live.Status.(*inferencev1.InferencePoolStatus).Parents
	want := withExported(old, p, condition, asked, pool.Generation, metav1.NewTime(time.Now().Truncate(time.Second)))
	if reflect.DeepEqual(old, want) {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion},
		"status":   map[string]any{"parents": want},
	})
	if err != nil {
		return err
	}
	return e.source.Patch(ctx, store.InferencePools.Ref(pool), live, "status", body)
}

func byHub(s inferencev1.ParentStatus) bool { return s.ControllerName == set.HubController }

func withExported(old []inferencev1.ParentStatus, p objectid.Pool, state report.Condition, asked bool, generation int64,
	now metav1.Time) []inferencev1.ParentStatus {
	i := slices.IndexFunc(old, byHub)
	if !asked {
		if i < 0 {
			return old
		}
		return slices.Delete(slices.Clone(old), i, i+1)
	}
	condition := metav1.Condition{Type: state.Type, Status: metav1.ConditionStatus(state.Status), Reason: state.Reason,
		Message: state.Message, ObservedGeneration: generation, LastTransitionTime: now}
	if i >= 0 {
		for _, c := range old[i].Conditions {
			if c.Type == condition.Type && c.Status == condition.Status {
				condition.LastTransitionTime = c.LastTransitionTime
			}
		}
	}
	group := inferencev1.Group(inferenceapi.Group)
	entry := inferencev1.ParentStatus{
		ParentRef: inferencev1.ParentReference{
			Group: &group, Kind: inferencev1.Kind(store.InferencePoolImports.Kind()),
			Namespace: inferencev1.Namespace(p.Namespace), Name: inferencev1.ObjectName(p.Name),
		},
		ControllerName: set.HubController, Conditions: []metav1.Condition{condition},
	}
	out := slices.Clone(old)
	if i < 0 {
		return append(out, entry)
	}
	out[i] = entry
	return out
}
