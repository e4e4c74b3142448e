package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestServerSideApply_ResultIsSeenAtOnceWithoutStatus(t *testing.T) {
	api := newAPI(t)
	c := api.follow(t)
	if err := c.Apply(t.Context(), service(), "hash", false); err != nil {
		t.Fatal(err)
	}
	got := c.Objects("default", "edge")
	if len(got) != 1 || got[0].Applied != "hash" || got[0].OwnerName != "gw" || got[0].Mark == "" {
		t.Errorf("seen: got %+v, want one Service of gw with its hash and a mark", got)
	}
	if !strings.Contains(api.query, "force=true") || !strings.Contains(api.query, "fieldManager=penstock") ||
		strings.Contains(api.body, `"status"`) {
		t.Errorf("applied %s: %s\nwant it forced by penstock, without status", api.query, api.body)
	}
}

func TestService_LoadBalancerAddressesAreSeen(t *testing.T) {
	api := newAPI(t)
	s := service()
	s.ResourceVersion = "5"
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example"}}
	api.put(s)
	c := api.follow(t)
	got := c.Objects("default", "edge")
	if len(got) != 1 || fmt.Sprint(got[0].Balancer) != "[192.0.2.1 lb.example]" {
		t.Errorf("got %+v, want the addresses 192.0.2.1 and lb.example", got)
	}
}

func TestPod_NodesAreThoseOfReadyPods(t *testing.T) {
	api := newAPI(t)
	s := service()
	s.ResourceVersion = "5"
	api.put(s)
	pod := func(name, version, ready, nodes string) string {
		return fmt.Sprintf(
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": %q, "uid": %[1]q, "resourceVersion": %q, "labels": {%q: "edge"}},
			"status": {"hostIPs": [%s], "conditions": [{"type": "Ready", "status": %q}]}}`, name, version, render.LabelFleet, nodes, ready)
	}
	one, two := `{"ip": "198.51.100.1"}, {"ip": "2001:db8::1"}`, `{"ip": "198.51.100.2"}`
	// A pod is not an object of the fleet, even with the fleet's name.
	api.pods = []string{pod("a", "1", "True", one), pod("b", "2", "True", one), pod("edge", "3", "True", two),
		pod("c", "4", "False", `{"ip": "198.51.100.3"}`)}
	c := api.follow(t)
	nodes := func(want ...string) {
		t.Helper()
		poll.NoError(t, fmt.Sprintf("the nodes %v", want), poll.Limit, func() error {
			if got := c.Objects("default", "edge"); len(got) != 1 || !slices.Equal(got[0].Nodes, want) {
				return fmt.Errorf("got %+v, want nodes %v", got, want)
			}
			return nil
		})
		for len(api.changed) > 0 {
			if ref := <-api.changed; ref.Kind == "Pod" && ref.Name != "edge" {
				t.Errorf("Changed(%v): that is not a fleet, want edge", ref)
			}
		}
	}
	nodes("198.51.100.1", "198.51.100.2", "2001:db8::1")
	api.events <- `{"type": "MODIFIED", "object": ` + pod("edge", "10", "False", two) + `}`
	nodes("198.51.100.1", "2001:db8::1")
	api.events <- `{"type": "DELETED", "object": ` + pod("a", "11", "True", one) + `}`
	nodes("198.51.100.1", "2001:db8::1")
	ending := strings.Replace(pod("b", "12", "True", one), `"uid"`,
		`"deletionTimestamp": "2026-01-01T00:00:00Z", "uid"`, 1)
	api.events <- `{"type": "MODIFIED", "object": ` + ending + `}`
	nodes()
	api.events <- `{"type": "DELETED", "object": ` + pod("b", "13", "True", one) + `}`
	nodes()
	api.events <- `{"type": "MODIFIED", "object": ` + pod("c", "14", "True", two) + `}`
	nodes("198.51.100.2")
}

func TestServerSideApply_ObjectWithoutLabelIsNotTouched(t *testing.T) {
	api := newAPI(t)
	s := service()
	s.Labels = nil
	api.put(s)
	c := api.follow(t)
	if err := c.Apply(t.Context(), service(), "hash", false); !errors.Is(err, apply.ErrNotOwned) {
		t.Errorf("got %v, want %v", err, apply.ErrNotOwned)
	}
	if api.body != "" {
		t.Error("it was modified")
	}
}

func service() *corev1.Service {
	yes := true
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "edge", Labels: map[string]string{render.LabelFleet: "edge"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: "gw", UID: "uid", Controller: &yes},
		},
	}}
}

type api struct {
	server *httptest.Server

	mu          sync.Mutex
	object      *corev1.Service
	query, body string // of the last Apply

	pods    []string       // in the first list, as JSON
	events  chan string    // pod events, as JSON
	changed chan apply.Ref // arguments of Changed
}

func newAPI(t *testing.T) *api {
	a := &api{events: make(chan string), changed: make(chan apply.Ref, 100)}
	a.server = httptest.NewServer(a)
	t.Cleanup(a.server.Close)
	return a
}

func (a *api) put(s *corev1.Service) { a.object = s }

func (a *api) follow(t *testing.T) *apply.Cluster {
	t.Helper()
	c, err := apply.New(apply.Config{REST: &rest.Config{Host: a.server.URL},
		Changed: func(ref apply.Ref) { a.changed <- ref }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	synced, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx, func() { close(synced) }) }()
	t.Cleanup(func() { cancel(); <-done })
	<-synced
	return c
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	// An older API server rejects this request, and the client then lists.
	case r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: metav1.StatusReasonInvalid, Code: 422,
		})
		return
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		for {
			var events chan string
			if strings.HasSuffix(r.URL.Path, "/pods") {
				events = a.events
			}
			select {
			case <-r.Context().Done():
				return
			case event := <-events:
				_, _ = io.WriteString(w, event+"\n") // fails if the client has left
				w.(http.Flusher).Flush()
			}
		}
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.query, a.body = r.URL.RawQuery, string(body)
		var object map[string]any
		_ = json.Unmarshal(body, &object)
		object["metadata"].(map[string]any)["resourceVersion"] = "7"
		_ = json.NewEncoder(w).Encode(object)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch named := strings.HasSuffix(r.URL.Path, "/services/edge"); {
	case named && a.object == nil:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: metav1.StatusReasonNotFound, Code: 404,
		})
	case named:
		_ = json.NewEncoder(w).Encode(a.object)
	default:
		list := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "6"},
			"items": []any{}}
		if strings.HasSuffix(r.URL.Path, "/services") && a.object != nil && a.object.Labels != nil {
			list["items"] = []any{a.object}
		}
		if strings.HasSuffix(r.URL.Path, "/pods") {
			list["items"] = json.RawMessage("[" + strings.Join(a.pods, ",") + "]")
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}
