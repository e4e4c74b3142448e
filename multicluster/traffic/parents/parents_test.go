package parents

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/translator/addresses"
)

// world has an import of west and east in ParentMode, and a Counter of their gateways' responses.
type world struct {
	*Counter
	t        *testing.T
	store    *store.Store
	findings map[string]string // findings by cluster
	changes  int               // number of changes of findings
}

func (w *world) Report(cluster string, r report.Report) {
	w.changes++
	w.findings[cluster] = r.Findings[0].String()
}

func (w *world) Resolve(cluster string) {
	w.changes++
	delete(w.findings, cluster)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: store.New(), findings: map[string]string{}}
	w.Counter = New(Config{
		Objects: func() store.Reader { return w.store.View() }, Reports: w,
		Allowed: func(gateway string, pool objectid.Target) bool {
			return gateway == "default/gw" && pool.Pool == objectid.Pool{Namespace: "default", Name: "chat"}
		},
	})
	go func() { _ = w.Run(t.Context()) }() // ends with the test
	w.write("", "")
	return w
}

// write stores the import. The cluster west has two gateways, and the cluster east has one. The
// parameters west and east are the hostnames of their gateways; "": none.
func (w *world) write(west, east string) {
	parent := func(name, hostname, address string) inferenceapi.ParentImport {
		p := inferenceapi.ParentImport{Namespace: "infra", Name: name, Hostname: hostname}
		p.Service = []inferenceapi.ServiceImport{
			{Addresses: []string{address}, Ports: []inferenceapi.Port{{Number: 80}}},
		}
		return p
	}
	imp := &inferenceapi.InferencePoolImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chat"}}
	imp.Status.Clusters = []inferenceapi.ImportedCluster{
		{Name: "west", RoutingMode: inferenceapi.ParentMode,
			Parents: []inferenceapi.ParentImport{parent("first", west, "192.0.2.1"),
				parent("second", west, "192.0.2.2")}},
		{Name: "east", RoutingMode: inferenceapi.ParentMode,
			Parents: []inferenceapi.ParentImport{parent("", east, "192.0.2.3")}},
	}
	if _, err := w.store.Apply(store.AddressPolicies.Put(addresses.Unrestricted()),
		store.InferencePoolImports.Put(imp)); err != nil {
		w.t.Fatal(err)
	}
}

// count counts n responses of a cluster's gateway.
func (w *world) count(cluster string, n, status int) {
	for range n {
		w.Count(accesslog.Attempt{Gateway: "default/gw", Cluster: cluster, Reached: true,
			At: netip.MustParseAddrPort("192.0.2.2:80"), Host: "chat.example", Status: status})
	}
}

// after waits for d, and then checks which clusters have findings.
func (w *world) after(d time.Duration, want ...string) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.findings) != len(want) {
		w.t.Fatalf("findings: %v, want findings about %v", w.findings, want)
	}
	for _, c := range want {
		if w.findings[c] == "" {
			w.t.Fatalf("%s has no finding: %v", c, w.findings)
		}
	}
}

const west, east = "parent/default/chat/west", "parent/default/chat/east"

func TestParentMode_Repeated404sNameTheGatewayAndTheFix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.count("last/"+west, repeated-1, 404) // counts together with the Envoy cluster west
		w.after(2 * time.Second)
		w.count(west, 1, 404)
		w.after(2*time.Second, west)
		want :=
			`InferencePoolImport default/chat status.clusters[0].parents[1].hostname: cluster west: gateway infra/second at 192.0.2.2:80 answers 404 repeatedly, at first to a request for host "chat.example": it receives the host that the client requests, and may have no route for it; set parents[].hostname to the host of its route, or add the host to the route at that gateway`
		if got := w.findings[west]; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		w.count(east, repeated, 404)
		w.after(2*time.Second, west, east)
		if got := w.findings[east]; !strings.Contains(got,
			"clusters[1].parents[0].hostname: cluster east: its gateway at 192.0.2.2:80 answers 404") {
			t.Errorf("the finding: got %q, want that the gateway of east at 192.0.2.2:80 answers 404", got)
		}
		w.after(forgetAfter-5*time.Second, west, east) // without requests, the findings stay
		w.after(6 * time.Second)
		if len(w.parents) != 0 {
			t.Errorf("counted for ever: %v, want none", w.parents)
		}
	})
}

func TestParentMode_FindingOf404sGoes(t *testing.T) {
	for name, step := range map[string]func(w *world){
		"answered otherwise for a while": func(w *world) {
			w.count(west, 1, 200)
			w.after(calm/2, west)
			w.count(west, 10, 404) // too few for a finding
			w.count(west, 1, 503)
			w.after(calm/2, west)
			w.after(calm / 2)
		},
		"outnumbered by other answers": func(w *world) {
			w.count(west, 1, 200)
			w.after(2*time.Second, west)
			w.count(west, 21, 200)
			w.after(2 * time.Second)
		},
		"hostname set": func(w *world) {
			w.write("llm.example", "")
			w.after(2 * time.Second)
		},
		"cluster gone": func(w *world) {
			if _, err := w.store.Apply(store.InferencePoolImports.Delete("default/chat")); err != nil {
				w.t.Fatal(err)
			}
			w.after(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.count(west, 10, 404)
				w.after(2*time.Second, west)
				step(w)
				w.count(west, 1, 404) // earlier responses do not count any more
				w.after(2 * time.Second)
			})
		})
	}
}

// A model server behind the gateway responds with 404 if it lacks the requested model.
func TestParentMode_404sAmongOtherAnswersAreNoFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 20 { // a quarter of the responses are 404s
			w.count(west, 8, 404)
			w.count(west, 24, 200)
			w.after(7 * time.Second)
		}
		w.count(east, repeated-1, 404) // few 404s over a long time are no finding either
		w.after(window)
		w.count(east, repeated-1, 404)
		w.after(2 * time.Second)
	})
}

func TestParentMode_ReportsOf404sAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, a := range []accesslog.Attempt{
			{Cluster: west, Gateway: "default/other"}, // this Gateway's Envoys have no such cluster
			{Cluster: "parent/other/chat/west", Gateway: "default/gw"},
			{Cluster: "peer/default/chat/west"}, {Cluster: "pool/default/chat"}, {Cluster: "parent/"}, {},
		} {
			a.Status, a.Reached = 404, true
			for range 2 * repeated {
				w.Count(a)
			}
		}
		counted := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.parents)
		}
		if n := counted(); n != 0 {
			t.Errorf("%d are counted for, want 0", n)
		}
		for i := range 2 * maxParents {
			w.count(fmt.Sprintf("parent/default/chat/c%d", i), repeated, 404)
		}
		if n := counted(); n != maxParents {
			t.Errorf("%d exporting clusters are counted for, want %d", n, maxParents)
		}
		w.after(window + 2*time.Second) // none of these exporting clusters exists
		if n := counted(); n != 0 {
			t.Errorf("%d exporting clusters that do not exist are counted for, want 0", n)
		}
		for i := range 100 { // a flood, each request for another host
			for range 100 {
				w.Count(accesslog.Attempt{Gateway: "default/gw", Cluster: west, Reached: true,
					Host: strings.Repeat(fmt.Sprint(i), 200), Status: 404})
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.after(time.Second, west)
		if got := w.findings[west]; w.changes != 1 || len(got) > 600 {
			t.Errorf("%d changes of %d bytes: %s, want 1 and at most 600", w.changes, len(got), got)
		}
	})
}
