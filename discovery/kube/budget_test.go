package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// endless runs an API server whose lists have no end. If whole is true, it sends a list as one
// response, otherwise in pages.
func endless(t *testing.T, whole bool) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		end := from + 100
		if whole {
			end = 1 << 30
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ServiceList",
			"metadata":{"resourceVersion":"1","continue":"%d"},"items":[`, end)
		for i := from; i < end; i++ {
			if i > from {
				_, _ = io.WriteString(w, ",")
			}
			if _, err := fmt.Fprintf(w, `{"metadata":{"namespace":"n","name":"s%d"}}`, i); err != nil {
				return // the client has closed the connection
			}
		}
		_, _ = io.WriteString(w, "]}")
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c := &rest.Config{Host: server.URL}
	kube.BoundResponses(c)
	return c
}

func services(t *testing.T, c *rest.Config, share *kube.Share) (*store.Store, *kube.Source) {
	t.Helper()
	s := store.New()
	source, err := kube.New(kube.Config{
		REST: c, Store: s, Share: share, Log: slog.New(slog.DiscardHandler),
		Only: []kube.Kind{{Kind: store.Services.Kind(), Required: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, source.Run)
	return s, source
}

func TestBudget_EndlessListEndsWhereItsShareEnds(t *testing.T) {
	budget := kube.NewBudget(1 << 20)
	share := budget.Share()
	s, source := services(t, endless(t, false), share)
	ctx, cancel := context.WithTimeout(t.Context(), poll.Limit)
	defer cancel()
	if err := source.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	n := len(store.Services.All(s.View()))
	if n == 0 || n > 256 { // they take a quarter of the budget, and each takes over 1 KiB
		t.Errorf("%d Services are kept, want 1 to 256", n)
	}
	left := share.LeftOut()
	if len(left) != 1 || left[0].Name != "services" || left[0].Left == 0 || !left[0].More || left[0].Kept != n {
		t.Errorf("left out: %v, kept: %d; want services alone, with more of them", left, n)
	}
	other := budget.Share()
	honest := kubetest.New(t)
	for i := range 10 {
		honest.Apply(t, "services", service(i))
	}
	st, reader := services(t, honest.Config(), other)
	if err := reader.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(store.Services.All(st.View())); n != 10 || len(other.LeftOut()) > 0 {
		t.Errorf("of another API server %d Services are kept, and left out are %v, want 10 and none",
			n, other.LeftOut())
	}
}

func service(i int) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: team, name: s%d}}", i)
}

func TestBudget_ResponseWithoutEndIsAnError(t *testing.T) {
	_, source := services(t, endless(t, true), kube.NewBudget(1<<20).Share())
	poll.NoError(t, "the source lags", poll.Limit, func() error {
		if !source.Lagging() {
			return errors.New("it does not")
		}
		return nil
	})
}

func bounded(
	t *testing.T, share *kube.Share, listed ...runtime.Object,
) (events *watch.FakeWatcher, out watch.Interface) {
	t.Helper()
	events = watch.NewFake()
	lw := share.Bound("services", &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			l := &corev1.ServiceList{}
			for _, obj := range listed {
				l.Items = append(l.Items, *obj.(*corev1.Service))
			}
			return l, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}, func(obj runtime.Object) runtime.Object { return obj })
	if _, err := cache.ToListerWatcherWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err := cache.ToListerWatcherWithContext(lw).WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Stop)
	return events, out
}

func large(name string, kib int) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{"a": strings.Repeat("x", kib<<10)},
	}}
}

func TestBudget_WatchedObjectTakesRoomThatAnotherLeft(t *testing.T) {
	budget := kube.NewBudget(400 << 10)
	share := budget.Share() // a kind in this share may use 100 KiB
	events, out := bounded(t, share, large("a", 60), large("b", 60))
	if left := share.LeftOut(); len(left) != 1 || left[0].String() != "1 of 2 services" {
		t.Fatalf("left out: got %v, want 1 of 2 services", left)
	}
	next := func() watch.Event {
		t.Helper()
		select {
		case e := <-out.ResultChan():
			return e
		case <-t.Context().Done():
			t.Fatal("no event")
		}
		return watch.Event{}
	}
	name := func(e watch.Event) string { return string(e.Type) + " " + e.Object.(*corev1.Service).Name }
	go func() { // the goroutine ends after these events
		events.Add(large("c", 60))     // c has no room
		events.Modify(large("a", 200)) // a does not fit any more
		events.Add(large("d", 60))     // d fits in place of a
		events.Delete(large("c", 60))  // c was left out before
		events.Delete(large("d", 60))
	}()
	for _, want := range []string{"DELETED a", "ADDED d", "DELETED d"} {
		if got := name(next()); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if left := share.LeftOut(); len(left) != 1 || left[0].Left != 2 || share.Roomy() {
		t.Errorf("left out: %v; there is room: %t; want 2 services, false: the smallest of them takes more than half",
			left, share.Roomy())
	}
	share.Close()
	events2, out2 := bounded(t, budget.Share())
	go events2.Add(large("e", 90)) // the first share is closed, so its bytes are free
	if e := <-out2.ResultChan(); name(e) != "ADDED e" {
		t.Error(name(e))
	}
}

func TestBudget_AnyNumberOfSharesLeavesRoomForAnother(t *testing.T) {
	budget, total := kube.NewBudget(4<<20), 0
	for i := range 8 {
		share := budget.Share()
		var listed []runtime.Object
		for n := range 2000 {
			listed = append(listed, large(fmt.Sprint("s", n), 2))
		}
		bounded(t, share, listed...)
		kept := share.LeftOut()[0].Kept
		if total += kept; kept < 10 || total*2<<10 > 4<<20 {
			t.Errorf("API server %d keeps %d objects of 2 KiB, and all keep %d; want at least 10, and 4 MiB at most",
				i, kept, total)
		}
	}
}

// A list is an error if an API server sends empty pages without end, for example because the
// continue token of a page leads to the same page.
func TestBudget_EmptyPagesWithoutEndAreAnError(t *testing.T) {
	asked := 0
	lw := kube.NewBudget(1<<20).Share().Bound("services", &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			if asked++; asked > 100_000 {
				return nil, errors.New("the test has enough")
			}
			return &metainternal.List{ListMeta: metav1.ListMeta{Continue: "again", ResourceVersion: "1"}}, nil
		},
	}, func(obj runtime.Object) runtime.Object { return obj })
	list, err := cache.ToListerWatcherWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "pages without an object") || asked > 1000 {
		t.Errorf("after %d pages: got %v, %v; want an error about pages without an object, after at most 1000",
			asked, list, err)
	}
}

func TestBudget_ListThatRepeatsANameTakesNoMore(t *testing.T) {
	var listed []runtime.Object
	for range 100 {
		listed = append(listed, large("a", 1))
	}
	lw := kube.NewBudget(1<<20).Share().Bound("services", &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metainternal.List{Items: listed}, nil
		},
	}, func(obj runtime.Object) runtime.Object { return obj })
	list, err := cache.ToListerWatcherWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.(*metainternal.List).Items) != 1 {
		t.Errorf("%d objects, %v, want 1", len(list.(*metainternal.List).Items), err)
	}
}
