package principals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// rig is a penstock serve on a folder, with an Envoy for its Gateway infra/gw, and the victim. The
// victim's objects are in the namespace victim and named victim: an HTTPRoute for victim.test, an
// InferencePool, a Service and a model server. The victim's clients send requests until the test
// ends.
//
// The Gateway accepts routes of all namespaces and, by default, no ListenerSets. Gateway
// infra/sets, with its own Envoy, accepts ListenerSets of all namespaces, whose authors may take
// each other's host names there.
type rig struct {
	processtest.Rig
	dir string // state, logs and sockets
	// Ports of 127.0.0.1: the Gateway's listeners by name, the picker, pages, and Envoy's admin
	// interface.
	gateway             map[string]int
	picker, http, admin int
	server              *httptest.Server
	penstock            *process.Process
	envoys              []*process.Process

	marker   int
	saved    map[string]int // the marker of the last settle, by file
	former   string         // the marker that the last settle removed
	rejected []string       // NACKs of any Envoy since settle began
	configs  string         // the victim's part of Envoy's configuration at the start
	reports  string         // the reports about the victim and the Gateway at the start

	stop   context.CancelFunc
	done   sync.WaitGroup
	sent   int
	failed []string
}

const (
	victimHost  = "victim.test"
	victimReply = "the victim's model server"
)

// start starts a rig, and waits until it serves the victim. args are further arguments of penstock
// serve.
func start(t testing.TB, files map[string]string, args ...string) *rig {
	t.Helper()
	dir := processtest.ShortDir(t)
	r := &rig{
		Rig: processtest.Rig{TB: t, Files: filepath.Join(dir, "files")}, dir: dir, server: modelServer(victimReply),
		gateway: map[string]int{}, saved: map[string]int{},
	}
	t.Cleanup(r.server.Close)
	for _, listener := range []string{"http", "through", "tcp", "sets", "secure"} {
		r.gateway[listener] = r.Port()
	}
	r.picker, r.http, r.admin = r.Port(), r.Port(), r.Port()
	if err := os.Mkdir(r.Files, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Write("victim.yaml", r.victimObjects())
	for name, text := range files {
		r.Write(name, text)
	}
	r.penstock = r.run("penstock", binaries.penstock, append([]string{
		"serve", "-f", r.Files, "--state", filepath.Join(dir, "state"),
		"--picker", local(r.picker), "--http", local(r.http),
	}, args...)...)
	r.Eventually("penstock is ready", func() error { return r.penstock.Answers("http://" + local(r.http) + "/readyz") })
	r.attach("gw", r.admin)
	r.attach("sets", r.Port())
	for _, ask := range r.victimRequests() {
		r.Eventually("the victim is served", ask)
	}
	r.settle("none.yaml", "")
	r.configs, r.reports = r.victimConfiguration(), r.victimReports(r.status())
	r.traffic()
	return r
}

func (r *rig) attach(gateway string, admin int) {
	r.Helper()
	envoy, err := process.StartEnvoy(binaries.penstock, binaries.envoy, r.dir, "envoy-"+gateway,
		"--gateway", "infra/"+gateway, "--xds", process.ADS(filepath.Join(r.dir, "state")), "--admin", local(admin),
		"--concurrency", "1", "--drain-time", "1s")
	if err != nil {
		r.Fatal(err)
	}
	r.envoys = append(r.envoys, envoy)
	r.ends(envoy)
}

// modelServer answers each request with a text. Its metrics page is an idle vLLM's.
func modelServer(reply string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			for _, series := range []string{"num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc"} {
				_, _ = fmt.Fprintf(w, "vllm:%s 0\n", series)
			}
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, reply)
	}))
}

func (r *rig) victimObjects() string {
	ip, port := "127.0.0.1", portOf(r.server)
	return fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: gw, namespace: infra}
# The matrix has a route for each cell of a model server.
spec: {routes: {budgetMilliseconds: 80}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: infra}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: gw}}
  addresses: [{value: 127.0.0.1}]
  listeners:
  - {name: http, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: through, port: %d, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
  - {name: tcp, port: %d, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}
  - {name: udp, port: %d, protocol: UDP, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: sets, namespace: infra}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: http, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: victim, namespace: victim}
spec:
  parentRefs: [{name: gw, namespace: infra, sectionName: http}]
  hostnames: [%s]
  rules:
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: victim}]
  - matches: [{path: {value: /service}}]
    backendRefs: [{name: victim, port: 80}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: victim, namespace: victim}
spec: {selector: {matchLabels: {app: victim}}, targetPorts: [{number: %d}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: victim, namespace: victim, labels: {app: victim}}
spec: {servers: [{address: %s, ports: [%d]}]}
---
apiVersion: v1
kind: Service
metadata: {name: victim, namespace: victim}
spec: {ports: [{name: http, port: 80, targetPort: %d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: victim, namespace: victim, labels: {kubernetes.io/service-name: victim}}
addressType: IPv4
ports: [{name: http, port: %d}]
endpoints: [{addresses: [%s]}]
`, r.gateway["http"], r.gateway["through"], r.gateway["tcp"], r.gateway["tcp"], r.gateway["sets"], victimHost, port, ip, port, port,
		port, ip)
}

func (r *rig) victimRequests() []func() error {
	chat := `{"model":"victim","messages":[{"role":"user","content":"hello"}]}`
	return []func() error{
		func() error { return r.askVictim("/v1/chat/completions", chat) },
		func() error { return r.askVictim("/service", "") },
	}
}

func (r *rig) askVictim(path, body string) error {
	status, text, err := r.ask(victimHost, path, body)
	if err == nil && (status != http.StatusOK || text != victimReply) {
		err = fmt.Errorf("%s: got %d: %.200s, want 200 %.200s", path, status, text, victimReply)
	}
	return err
}

func (r *rig) ask(host, path, body string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	url := "http://" + local(r.gateway["http"]) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Host = host
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode, string(raw), err
}

// pace is the time between two requests of the victim. It leaves the machine time for other work.
const pace = 5 * time.Millisecond

func (r *rig) traffic() {
	ctx, stop := context.WithCancel(r.Context())
	r.stop = stop
	r.Cleanup(stop)
	r.done.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			for _, ask := range r.victimRequests() {
				err := ask()
				if r.sent++; err != nil && ctx.Err() == nil {
					r.failed = append(r.failed, err.Error())
				}
			}
		}
	})
}

func (r *rig) end() {
	r.Helper()
	r.stop()
	r.done.Wait()
	if len(r.failed) > 0 || r.sent == 0 {
		some := strings.Join(r.failed[:min(5, len(r.failed))], "; ")
		r.Errorf("%d of %d requests of the victim failed, want none, and some sent: %s", len(r.failed), r.sent, some)
	}
	r.Logf("%d requests of the victim", r.sent)
}

// changed describes differences of the victim's configuration or reports from the start, and
// Envoys' NACKs; "" means no difference.
func (r *rig) changed() string {
	r.Helper()
	return cmp.Diff(r.reports, r.victimReports(r.status())) + cmp.Diff(r.configs, r.victimConfiguration()) +
		strings.Join(r.rejected, "\n")
}

// unchanged fails the test if the victim's configuration or reports changed, or Envoy rejects
// something. what names the suspects.
func (r *rig) unchanged(what string) (same bool) {
	r.Helper()
	changed := r.changed()
	if changed != "" {
		r.Errorf("%s: the victim's part changed, want it as before: %s", what, changed)
	}
	return changed == ""
}

// settle replaces the objects that an earlier call with this name saved in the folder. It waits
// until Envoy and the status reflect the objects; r.rejected then has Envoy's NACKs. Each call
// writes a new file, because Penstock keeps a file's former objects after a document that does not
// parse.
func (r *rig) settle(name, objects string) {
	r.Helper()
	last, had := r.saved[name]
	r.marker, r.rejected, r.former = r.marker+1, nil, fmt.Sprintf("marker-%d", last)
	host := fmt.Sprintf("marker-%d.test", r.marker)
	r.Write(numbered(name, r.marker), objects+fmt.Sprintf("\n---\n"+`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: marker-%d, namespace: marker}
spec:
  parentRefs: [{name: gw, namespace: infra, sectionName: http}]
  hostnames: [%s]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: %s}}]}]
`, r.marker, host, host))
	if had {
		if err := os.Remove(filepath.Join(r.Files, numbered(name, last))); err != nil {
			r.Fatal(err)
		}
	}
	r.saved[name] = r.marker
	r.Eventually("Envoy has "+host, func() error {
		status, text, err := r.ask(host, "/", "")
		if err == nil && status != http.StatusFound {
			err = fmt.Errorf("got %d: %.100s, want 302", status, text)
		}
		return errors.Join(err, r.penstock.Running(), r.envoys[0].Running(), r.envoys[1].Running())
	})
	r.Eventually("Envoy is in sync", r.synced)
	r.Eventually("the status is current", r.reported)
}

func numbered(name string, n int) string { return fmt.Sprintf("%d-%s", n, name) }

// reported returns an error until the status has the last marker and lacks the marker before. Each
// change of the folder causes one report.
func (r *rig) reported() error {
	var has []string
	for _, o := range r.status().Objects {
		if o.Namespace == "marker" {
			has = append(has, o.Name)
		}
	}
	if want := fmt.Sprintf("marker-%d", r.marker); !slices.Contains(has, want) || slices.Contains(has, r.former) {
		return fmt.Errorf("it has %s, want %s, and %s gone", has, want, r.former)
	}
	return nil
}

type proxy struct {
	Gateway string
	Types   []struct {
		Type                       string
		Pending, Leaving, Rejected int
		LastNack                   string
	}
}

// synced returns an error while Envoy lacks a resource. Draining clusters may stay.
func (r *rig) synced() error {
	var proxies []proxy
	r.get(local(r.http), "/proxies", &proxies)
	if len(proxies) != len(r.envoys) {
		return fmt.Errorf("%d proxies, want %d", len(proxies), len(r.envoys))
	}
	for _, p := range proxies {
		for _, t := range p.Types {
			switch {
			case t.Rejected > 0 && strings.Contains(t.LastNack, "Address already in use"): // port of another process
			case t.Rejected > 0:
				nack := fmt.Sprintf("%s rejects %d of %s: %s", p.Gateway, t.Rejected, t.Type, t.LastNack)
				r.rejected = append(r.rejected, nack)
				return nil
			case t.Pending > t.Leaving:
				return fmt.Errorf("%s: %d of %s are pending, %d are leaving, want no other pending", p.Gateway,
					t.Pending, t.Type, t.Leaving)
			}
		}
	}
	return nil
}

type document struct {
	Objects []struct {
		report.Ref
		Status struct {
			Conditions []metav1.Condition
			Listeners  []struct{ Conditions []metav1.Condition }
			Parents    []struct{ Conditions []metav1.Condition }
			Ancestors  []struct{ Conditions []metav1.Condition }
		}
	}
	Findings []report.Finding
}

func (r *rig) status() document {
	var d document
	r.get(local(r.http), "/status", &d)
	return d
}

func (d document) negatives(i int) []string {
	o, out := d.Objects[i], []string{}
	add := func(list []metav1.Condition) {
		for _, c := range list {
			if c.Status == metav1.ConditionFalse && c.Type != "Conflicted" && c.Type != "OverlappingTLSConfig" {
				out = append(out, fmt.Sprintf("%s %s=False %s: %s", o.Ref, c.Type, c.Reason, c.Message))
			}
		}
	}
	add(o.Status.Conditions)
	for _, l := range o.Status.Listeners {
		add(l.Conditions)
	}
	for _, p := range slices.Concat(o.Status.Parents, o.Status.Ancestors) {
		add(p.Conditions)
	}
	return out
}

func (r *rig) victimReports(d document) string {
	var out []string
	theirs := func(ref report.Ref) bool { return ref.Namespace == "victim" || ref.Namespace == "infra" }
	for i := range d.Objects {
		if theirs(d.Objects[i].Ref) {
			out = append(out, d.negatives(i)...)
		}
	}
	for _, f := range d.Findings {
		if theirs(f.Owner) {
			out = append(out, f.String())
		}
	}
	return strings.Join(out, "\n")
}

// victimConfiguration returns the victim's part of Envoy's configuration: clusters and endpoints
// with the victim's name, and the victim's virtual host with its own routes in order.
func (r *rig) victimConfiguration() string {
	var dump any
	r.get(local(r.admin), "/config_dump?include_eds", &dump)
	var out []string
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			name, _ := v["name"].(string)
			cluster, _ := v["cluster_name"].(string)
			if slices.Contains(anyStrings(v["domains"]), victimHost) {
				routes, _ := v["routes"].([]any)
				v["routes"] = slices.DeleteFunc(routes, func(e any) bool {
					route, _ := e.(map[string]any)
					return !strings.HasPrefix(fmt.Sprint(route["name"]), "HTTPRoute/victim/")
				})
				name = "/victim/victim"
			}
			if strings.Contains(name+" "+cluster, "/victim/victim") {
				text, _ := json.Marshal(v) // cannot fail: it was JSON
				out = append(out, string(text))
				return
			}
			for _, e := range v {
				visit(e)
			}
		}
	}
	visit(dump)
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func anyStrings(v any) (out []string) {
	list, _ := v.([]any)
	for _, e := range list {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

func (r *rig) get(address, page string, into any) {
	r.Helper()
	resp, err := http.Get("http://" + address + page)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		r.Fatalf("%s: %s: %v", page, resp.Status, err)
	}
}

func (r *rig) run(name, binary string, args ...string) *process.Process {
	r.Helper()
	p, err := process.Start(name, filepath.Join(r.dir, name+".log"), binary, nil, args...)
	if err != nil {
		r.Fatal(err)
	}
	r.ends(p)
	return p
}

func (r *rig) ends(p *process.Process) {
	r.Cleanup(func() {
		if err := p.Running(); err != nil {
			r.Error("too early: ", err)
		} else if err := p.Stop(10 * time.Second); err != nil {
			r.Error(err)
		}
		if text, _ := os.ReadFile(filepath.Join(r.dir, p.Name+".log")); r.Failed() {
			r.Logf("the log of %s:\n%s", p.Name, text[max(0, len(text)-4<<10):])
		}
	})
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func portOf(s *httptest.Server) int {
	var port int
	_, _ = fmt.Sscanf(s.URL, "http://127.0.0.1:%d", &port)
	return port
}
