package set

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// later is a queue that records the delays of its items.
type later struct {
	workqueue.TypedRateLimitingInterface[task]
	in []time.Duration
}

func (q *later) AddAfter(_ task, in time.Duration) { q.in = append(q.in, in) }

// rejecting is a Kubernetes whose API server has the import team/chat of the clusters east and
// evil. The API server accepts a status unless answer returns an error.
type rejecting struct {
	*Kubernetes
	queue *later

	mu     sync.Mutex
	answer func(status string) *metav1.Status
	last   string // the last accepted status
}

func newRejecting(t *testing.T, answer func(status string) *metav1.Status) *rejecting {
	t.Helper()
	r := &rejecting{answer: answer}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(hr.Body)
		if answered := r.answer(string(body)); answered != nil {
			answered.TypeMeta, answered.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure
			w.WriteHeader(int(answered.Code))
			_ = json.NewEncoder(w).Encode(answered)
			return
		}
		if hr.URL.Query().Get("dryRun") == "" {
			r.last = string(body)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(api.Close)
	obj := &inferenceapi.InferencePoolImport{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "chat"}}
	s := store.New()
	if _, err := s.Apply(store.InferencePoolImports.Put(obj)); err != nil {
		t.Fatal(err)
	}
	var err error
	r.Kubernetes, err = NewKubernetes(KubernetesConfig{
		REST: &rest.Config{Host: api.URL}, Store: s, Log: slog.New(slog.DiscardHandler),
		Live: func(report.Ref) *inferenceapi.InferencePoolImportStatus { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin()
	r.Follow(func(objectid.Pool, int64) (inferenceapi.InferencePoolImportStatus, bool) {
		var sources []imports.Source
		for _, name := range []string{"east", "evil"} {
			sources = append(sources, imports.Source{
				Entry: inferenceapi.ImportedCluster{Name: name, RoutingMode: inferenceapi.ParentMode},
				State: registry.Ready,
			})
		}
		return imports.StatusOf(sources, 1), true
	})
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[task](time.Hour, time.Hour)
	r.queue = &later{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(limit)}
	t.Cleanup(r.queue.ShutDown)
	return r
}

// write updates the import once. It returns the clusters in the import, and how many were left out.
func (r *rejecting) write(t *testing.T) (clusters string, left int) {
	t.Helper()
	r.work(t.Context(), r.queue, task{pool: objectid.Pool{Namespace: "team", Name: "chat"}})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{"east", "evil"} {
		if strings.Contains(r.last, `"name":"`+name+`"`) {
			clusters += name + " "
		}
	}
	r.Kubernetes.mu.Lock()
	defer r.Kubernetes.mu.Unlock()
	for _, entries := range r.rejected {
		left += len(entries)
	}
	return clusters, left
}

// forbidden is an admission policy that rejects a status with an entry of the cluster evil.
func forbidden(status string) *metav1.Status {
	if !strings.Contains(status, `"name":"evil"`) {
		return nil
	}
	return &metav1.Status{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "a policy"}
}

// If an API server rejects writes only now and then, for example because one replica of a webhook
// is broken, no entry is left out.
func TestRejected_FailingWebhookLeavesOutNoEntry(t *testing.T) {
	for _, pattern := range []string{"x.xx", "x.x..", "x.xx..", "x..x.", "x.x.x.", "x.xx.x."} {
		n := 0
		r := newRejecting(t, func(string) *metav1.Status {
			if n++; n > len(pattern) || pattern[n-1] == '.' {
				return nil
			}
			return &metav1.Status{Code: http.StatusInternalServerError, Message: `failed calling webhook "a"`}
		})
		if _, left := r.write(t); left > 0 {
			t.Errorf("%s: %d entries are left out, want 0", pattern, left)
		}
		n = len(pattern)
		if got, left := r.write(t); got != "east evil " || left > 0 {
			t.Errorf(`%s: the import has %s once it works again, and %d entries are left out, want "east evil " and 0`,
				pattern, got, left)
		}
	}
}

// An entry is left out only after it was rejected twice, because only one replica of a policy's
// webhook may reject it.
func TestRejected_EntryIsRejectedTwice(t *testing.T) {
	n := 0
	r := newRejecting(t, func(status string) *metav1.Status {
		if n++; n == 5 { // the sequence: the write, none, both, east, evil, evil again
			return forbidden(status)
		}
		if n < 4 {
			return forbidden(status)
		}
		return nil
	})
	if _, left := r.write(t); left > 0 {
		t.Errorf("%d entries are left out after %d requests, want 0", left, n)
	}
}

// If an object is too large for the database, the API server responds with status 500. This must
// count as a rejection.
func TestRejected_TooLargeForTheDatabase(t *testing.T) {
	r := newRejecting(t, func(status string) *metav1.Status {
		if forbidden(status) == nil {
			return nil
		}
		return &metav1.Status{Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}
	})
	if got, left := r.write(t); got != "east " || left != 1 {
		t.Errorf(`the import has %s, and %d entries are left out, want "east " and 1`, got, left)
	}
}

// An entry that was left out is tried again, even without a change.
func TestRejected_EntryIsTriedAgainLater(t *testing.T) {
	r := newRejecting(t, forbidden)
	for range 2 {
		r.queue.in = nil
		if got, left := r.write(t); got != "east " || left != 1 {
			t.Fatalf(`the import has %s, and %d entries are left out, want "east " and 1`, got, left)
		}
		if in := r.queue.in; len(in) != 1 || in[0] > rejectedFor || in[0] < rejectedFor-time.Minute {
			t.Fatalf("it is tried again after %v, want one within a minute below %v", in, rejectedFor)
		}
	}
	p := objectid.Pool{Namespace: "team", Name: "chat"}
	rejected := r.rejected[p]["evil"]
	rejected.at = rejected.at.Add(-rejectedFor)
	r.rejected[p]["evil"], r.queue.in, r.answer = rejected, nil, func(string) *metav1.Status { return nil }
	if got, left := r.write(t); got != "east evil " || left != 0 || len(r.queue.in) > 0 {
		t.Errorf(`the import has %s, %d entries are left out, tried again after %v, want "east evil ", 0, never`,
			got, left, r.queue.in)
	}
}

// A rejected entry blocks no other, even while another manager owns the import's conditions.
func TestRejected_BesideAnotherManagersConditions(t *testing.T) {
	r := newRejecting(t, func(status string) *metav1.Status {
		var parsed struct {
			Status struct{ Conditions []any }
		}
		if _ = json.Unmarshal([]byte(status), &parsed); len(parsed.Status.Conditions) == 0 {
			return forbidden(status)
		}
		return &metav1.Status{
			Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "another manager has it",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: metav1.CauseTypeFieldManagerConflict, Field: `.status.conditions[type="Accepted"].status`,
			}}},
		}
	})
	if got, left := r.write(t); got != "east " || left != 1 {
		t.Errorf(`the import has %q, and %d entries are left out, want "east " and 1`, got, left)
	}
}
