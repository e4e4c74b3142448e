package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// watches delivers events to a Source as its reflectors do, in the virtual time of a synctest
// bubble. Time advances only when all goroutines wait, and the feed waits between two commits. So
// states has an entry for each revision.
type watches struct {
	t          *testing.T
	store      *store.Store
	services   *intake
	routes     *intake
	generation int64
	mu         sync.Mutex
	// states has the route's backend in each revision, with "!" if this Service does not exist; "":
	// there is no route.
	states []string
}

// startWatches makes a Source that has synced with Service a and a route to it. Call it in a
// bubble.
func startWatches(t *testing.T) *watches {
	t.Helper()
	s, err := New(Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Store: store.New()})
	if err != nil {
		t.Fatal(err)
	}
	follow := func(table string) *intake {
		p := part{kind: s.byTable[table]}
		s.parts[p] = &following{intake: newIntake(s, p), version: p.kind.versions[0]}
		return s.parts[p].intake
	}
	w := &watches{t: t, store: s.store, services: follow("Service"), routes: follow("HTTPRoute")}
	w.check(w.services.Replace([]any{serviceObject("a")}, "1"))
	w.check(w.routes.Replace([]any{w.routeTo("a")}, "1"))
	w.check(s.feed.start())
	close(s.ready)

	ctx, cancel := context.WithCancel(t.Context())
	sub := s.store.Subscribe()
	go func() {
		if err := s.feed.run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	go func() {
		for {
			revisions, view, err := sub.Next(ctx)
			if err != nil {
				return
			}
			if len(revisions) != 1 {
				t.Errorf("%d revisions at once, want 1: some were not checked", len(revisions))
			}
			w.mu.Lock()
			w.states = append(w.states, state(view))
			w.mu.Unlock()
		}
	}()
	t.Cleanup(cancel)
	w.settle(0)
	w.expect("a")
	return w
}

func (w *watches) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func state(view *store.View) string {
	r, ok := store.HTTPRoutes.Get(view, "default/r")
	if !ok {
		return ""
	}
	name := string(r.Spec.Rules[0].BackendRefs[0].Name)
	if _, ok := store.Services.Get(view, "default/"+name); !ok {
		return name + "!"
	}
	return name
}

func (w *watches) settle(d time.Duration) {
	time.Sleep(d + debounceQuiet)
	synctest.Wait()
}

// expect compares the states since its last call. Equal states in a row count once.
func (w *watches) expect(want ...string) {
	w.t.Helper()
	var got []string
	for _, s := range w.taken() {
		if len(got) == 0 || got[len(got)-1] != s {
			got = append(got, s)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("the route led to %q, want %q", got, want)
	}
}

func (w *watches) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	states := w.states
	w.states = nil
	return states
}

// neverDangled checks that the route named an existing Service in each revision since the last
// check, and that it names the Service now at present.
func (w *watches) neverDangled(now string) {
	w.t.Helper()
	states := w.taken()
	for _, s := range states {
		if strings.HasSuffix(s, "!") {
			w.t.Errorf("the route led to %q: requests get 500", states)
			break
		}
	}
	if n := len(states); n == 0 || states[n-1] != now {
		w.t.Errorf("the route led to %q, want %s at last", states, now)
	}
}

func (w *watches) hasService(name string, want bool) {
	w.t.Helper()
	if _, ok := store.Services.Get(w.store.View(), "default/"+name); ok != want {
		w.t.Errorf("Service %s is in the store: %t, want %t", name, ok, want)
	}
}

func serviceObject(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
}

func (w *watches) routeTo(service string) *gatewayv1.HTTPRoute {
	w.generation++
	port := gatewayv1.PortNumber(80)
	backend := gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(service), Port: &port},
	}
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", UID: types.UID("r"), Generation: w.generation},
		Spec: gatewayv1.HTTPRouteSpec{
			Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backend}}}},
		},
	}
}

// lags are the times between two events of one change.
var lags = []time.Duration{0, time.Millisecond, debounceWindow, 20 * time.Millisecond, watchSkew - 10*time.Millisecond}

func inBubbles(t *testing.T, f func(t *testing.T, w *watches, lag time.Duration)) {
	for _, lag := range lags {
		t.Run(lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, startWatches(t), lag) })
		})
	}
}

func TestWatch_BackendDeletionBeforeRouteMoveLosesNoRequest(t *testing.T) {
	inBubbles(t, func(t *testing.T, w *watches, lag time.Duration) {
		w.check(w.services.Add(serviceObject("b")))
		w.check(w.services.Delete(serviceObject("a")))
		w.settle(lag)
		w.check(w.routes.Update(w.routeTo("b")))
		w.settle(0)
		w.hasService("a", true)
		w.settle(watchSkew - lag)
		w.hasService("a", false)
		w.neverDangled("b")
	})
}

func TestWatch_RouteBeforeItsBackendWaitsForIt(t *testing.T) {
	inBubbles(t, func(t *testing.T, w *watches, lag time.Duration) {
		w.check(w.routes.Update(w.routeTo("b")))
		time.Sleep(lag)
		w.check(w.services.Add(serviceObject("b")))
		w.settle(0)
		w.neverDangled("b")
	})
}

func TestWatch_RouteToMissingBackendIsReadAfterSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatches(t)
		w.check(w.routes.Update(w.routeTo("never")))
		w.settle(watchSkew - 10*time.Millisecond)
		w.expect()
		w.settle(10 * time.Millisecond)
		w.expect("never!")
	})
}

func TestWatch_RouteDeletionDropsItsHeldVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatches(t)
		w.check(w.routes.Update(w.routeTo("never")))
		w.check(w.routes.Delete(w.routeTo("never")))
		w.settle(2 * watchSkew)
		w.expect("")
	})
}

func TestWatch_ReplacedBackendIsNeverRemoved(t *testing.T) {
	inBubbles(t, func(t *testing.T, w *watches, lag time.Duration) {
		w.check(w.services.Delete(serviceObject("a")))
		w.settle(lag)
		w.check(w.services.Add(serviceObject("a")))
		w.settle(2 * watchSkew)
		w.hasService("a", true)
		w.expect()
	})
}

// A write of a route's status is not held back, because it changes neither the generation nor the
// backends.
func TestWatch_StatusOfRouteIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatches(t)
		w.check(w.services.Delete(serviceObject("a")))
		w.settle(2 * watchSkew)
		w.expect("a!")
		same := w.routeTo("a")
		w.generation--
		same.Generation, same.Labels = w.generation, map[string]string{"seen": "yes"}
		w.check(w.routes.Update(same))
		w.settle(0)
		if r, _ := store.HTTPRoutes.Get(w.store.View(), "default/r"); r.Labels["seen"] != "yes" {
			t.Error("the same generation of the route was held back")
		}
	})
}

func TestDebounce_BurstOfEventsIsOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatches(t)
		w.settle(debounceWindow)
		w.check(w.services.Add(serviceObject("b")))
		synctest.Wait() // a single event is committed without a delay
		w.hasService("b", true)
		before := w.store.View().Revision()
		for _, name := range []string{"c", "d", "e"} {
			w.check(w.services.Add(serviceObject(name)))
		}
		synctest.Wait()
		w.hasService("c", false)
		w.settle(0)
		w.hasService("e", true)
		if n := w.store.View().Revision() - before; n != 1 {
			t.Errorf("%d revisions for one burst, want 1", n)
		}
	})
}
