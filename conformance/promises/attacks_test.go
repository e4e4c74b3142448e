//go:build lab && linux

package promises

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/penstock-project/penstock/conformance/promises/attacks"
	"github.com/penstock-project/penstock/conformance/promises/process"
)

// ofAttacks run attacks of package attacks in the cluster, under load. They compare memory, so they
// do not run in parallel.
var ofAttacks = []promise{
	{"ADS_StreamsWithoutAuthorizationCostNoMemory", unauthorizedStreams},
	{"XDSCredentials_IdleConnectionsLockOutNoProxy", idleConnections},
	{"PickerKey_StolenOneOpensNoOtherPool", stolenKey},
	{"Addresses_TenantReachesNoOtherNamespace", tenantAddresses},
	{"RegularExpressions_LargestRouteCostsNoMemory", largestRoute},
	{"Upload_StalledOnesLeaveOthersServed", stalledUploads},
}

const mebibyte = 1 << 20

// growsBy fails the test if a process's resident memory grows by more than most bytes during
// attack.
func (p place) growsBy(pid int, most int64, attack func()) {
	p.Helper()
	before, err := process.RSS(pid)
	if err != nil {
		p.Fatal(err)
	}
	peak := process.Peak(p.Context(), pid)
	attack()
	if got := peak(); got > before+most {
		p.Errorf("it had %d MiB before, and %d MiB at the peak, want at most %d more", before/mebibyte, got/mebibyte,
			most/mebibyte)
	}
}

func unauthorizedStreams(p place) {
	p.apply(chat + plainGateway)
	t := p.load(p.programmed("gw")[0])
	victim := p.processes()[0]
	p.growsBy(p.Process(victim, "serve"), 64*mebibyte, func() {
		ends, err := attacks.Flood(p.Context(), victim.Status.PodIP+":18000", transport(p.authorities(), nil), 100,
			64*mebibyte)
		if err != nil || ends["<nil>"] > 0 {
			p.Errorf("streams ended so: %v, %v, want all with an error", ends, err)
		}
	})
	p.end(t)
}

func idleConnections(p place) {
	p.apply(chat + plainGateway)
	t := p.load(p.programmed("gw")[0])
	var conns []net.Conn
	p.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	processes := p.processes()
	for _, victim := range processes {
		more, err := attacks.Idle(p.Context(), net.Dialer{}, victim.Status.PodIP+":18000", 300)
		conns = append(conns, more...)
		if err != nil {
			p.Fatal(err)
		}
	}
	p.Until("most are closed", func(context.Context) error {
		if n := attacks.Open(conns); n > 64*len(processes) {
			return fmt.Errorf("%d are open, want at most %d", n, 64*len(processes))
		}
		return nil
	})
	p.fleetIs(small + "replicas: 2")
	p.RolledOut(p.Namespace, fleet)
	p.end(t)
}

func (p place) tenant() place {
	p.Helper()
	return newPlace(p.T)
}

// bait is an external Gateway with a pool. The attacker has its key.
const bait = `
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: bait}
spec: {selector: {matchLabels: {app: bait}}, targetPorts: [{number: 8000}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bait}
spec:
  parentRefs: [{name: gw}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: bait}]}]
`

func stolenKey(p place) {
	p.apply(strings.Replace(chat, "failureMode: FailClose", "failureMode: FailClose, full: {inFlight: 4}", 1) +
		plainGateway)
	address := p.programmed("gw")[0]
	p.answers("http://" + address + "/v1/models")
	servers, err := p.pods(p.Context(), p.Namespace, "app=chat")
	if err != nil || len(servers) == 0 {
		p.Fatalf("model servers: got %v, %d, want at least 1", err, len(servers))
	}
	thief := p.tenant()
	thief.apply(attached + bait)
	own, other := thief.Namespace+"/gw", p.Namespace+"/gw"
	dial := func(address, token string) *grpc.ClientConn {
		conn, err := grpc.NewClient(address, p.as(token)...)
		if err != nil {
			p.Fatal(err)
		}
		p.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for _, process := range p.processes() {
		ads, picker := dial(process.Status.PodIP+":18000", thief.token("mine", "penstock.dev")),
			dial(process.Status.PodIP+":9002", "")
		var key string
		p.Until("the key opens its own pool", func(ctx context.Context) (err error) {
			if key, err = attacks.StealKey(ctx, ads, own); err != nil {
				return err
			}
			if code := attacks.Pick(ctx, picker, key, thief.Namespace+"/bait"); code != codes.OK {
				return errors.New(code.String())
			}
			return nil
		})
		for what, c := range map[string]struct {
			key  string
			want codes.Code
		}{
			"another Gateway's pool":                 {key, codes.PermissionDenied},
			"another Gateway's name before the code": {other + strings.TrimPrefix(key, own), codes.Unauthenticated},
		} {
			if code := attacks.Pick(p.Context(), picker, c.key, p.Namespace+"/chat"); code != c.want {
				p.Errorf("%s: %v, want %v", what, code, c.want)
			}
		}
		for _, server := range servers {
			for _, pool := range []string{p.Namespace + "/chat", thief.Namespace + "/bait"} {
				if err := attacks.ReportPhantoms(p.Context(), picker, key, pool,
					server.Status.PodIP+":8000"); err != nil {
					p.Error(err)
				}
			}
		}
		for range 8 {
			if err := fetch(p.Context(), http.MethodPost, "http://"+address+"/v1/chat/completions",
				fmt.Sprintf(prompt, 1, false), true); err != nil {
				p.Errorf("after false reports: %v", err)
			}
		}
	}
}

// reaching are a tenant's objects with the addresses of a victim's pod and of other forbidden
// targets. They cover each kind of object that can have addresses.
const reaching = `
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: servers, labels: {app: servers}}
spec: {servers: [{address: POD}, {address: NODE, ports: [6443]}, {address: PENSTOCK, ports: [9090]}, {address: 169.254.169.254, ports: [80]}, {address: "::ffff:127.0.0.1"}, {address: chat.VICTIM.svc.cluster.local}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: servers}
spec: {selector: {matchLabels: {app: servers}}, targetPorts: [{number: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: named}
spec: {type: ExternalName, externalName: chat.VICTIM.svc.cluster.local, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: sliced}
spec: {ports: [{name: http, port: 80, targetPort: 8000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: sliced, labels: {kubernetes.io/service-name: sliced}}
addressType: IPv4
endpoints: [{addresses: [POD]}, {addresses: [PENSTOCK]}]
ports: [{name: http, port: 8000}]
---
apiVersion: v1
kind: Service
metadata: {name: own}
spec: {ports: [{name: http, port: 80, targetPort: 8000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: own, labels: {kubernetes.io/service-name: own}}
addressType: IPv4
endpoints: [{addresses: [OWN]}]
ports: [{name: http, port: 8000}]
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: imported}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: reaching}
spec:
  parentRefs: [{name: gw}]
  hostnames: [attacker.example]
  rules:
  - {matches: [{path: {value: /servers}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: servers}]}
  - {matches: [{path: {value: /named}}], backendRefs: [{name: named, port: 80}]}
  - {matches: [{path: {value: /sliced}}], backendRefs: [{name: sliced, port: 80}]}
  - {matches: [{path: {value: /imported}}], backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: imported}]}
  - matches: [{path: {value: /own}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /health}}}]
    backendRefs: [{name: own, port: 80}]
`

// importing is an import's status whose gateway and pods are the victim's.
const importing = `{"apiVersion": "inference.networking.x-k8s.io/v1alpha1", "kind": "InferencePoolImport", "metadata": {"name": "imported"}, "status": {"clusters": [
 {"name": "east", "routingMode": "ParentMode", "parents": [{"service": [{"addresses": ["PEER"], "ports": [{"number": 8000}]}]}]}
]}}`

func (p place) findsAddresses(pod, peer string) {
	p.Helper()
	p.Until("findings name each address", func(ctx context.Context) error {
		var all json.RawMessage
		if err := p.admin(ctx, p.processes()[0].Name, "/status", &all); err != nil {
			return err
		}
		for _, want := range []string{
			"address " + pod + " is outside the allowed ranges",
			"address " + peer + " is outside the allowed ranges",
			"host name chat." + p.Namespace + ".svc.cluster.local resolves to",
			"address 169.254.169.254 is a link-local address, which is never allowed",
			"address " + pod + " belongs to an endpoint of Service " + p.Namespace + "/chat, in another namespace",
			"named is of type ExternalName, which is not allowed here",
		} {
			if !strings.Contains(string(all), want) {
				return fmt.Errorf("no finding %q in %s, want it", want, all)
			}
		}
		return nil
	})
}

// A tenant writes addresses of another namespace's pod, the API server, Penstock, a cloud's
// metadata server and loopback. Its Gateway connects only to the tenant's own pod.
func tenantAddresses(p place) {
	p.apply(chat)
	attacker := p.tenant()
	attacker.apply(chat + plainGateway)
	address := attacker.programmed("gw")[0]
	t := attacker.load(address)
	servers := func(where place) (list []corev1.Pod) {
		p.RolledOut(where.Namespace, "chat")
		list, err := where.pods(p.Context(), where.Namespace, "app=chat")
		if err != nil || len(list) != 2 {
			p.Fatalf("servers: got %s, %v, want 2", podNames(list), err)
		}
		return list
	}
	pod, peer, own := servers(p)[0].Status.PodIP, servers(p)[1].Status.PodIP, servers(attacker)[0].Status.PodIP
	nodes, err := p.CoreV1().Nodes().List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	write := strings.NewReplacer("POD", pod, "PEER", peer, "NODE", nodes.Items[0].Status.Addresses[0].Address,
		"PENSTOCK", p.processes()[0].Status.PodIP,
		"VICTIM", p.Namespace, "OWN", own).Replace
	attacker.apply(write(reaching))
	status := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(write(importing)), &status.Object); err != nil {
		p.Fatal(err)
	}
	if _, err := p.dynamic.Resource(kindOf("inference.networking.x-k8s.io", "v1alpha1", "inferencepoolimports")).
		Namespace(attacker.Namespace).
		ApplyStatus(p.Context(), "imported", status,
			metav1.ApplyOptions{FieldManager: "attacker", Force: true}); err != nil {
		p.Fatal(err)
	}
	get := func(path string) (int, error) {
		req, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return 0, err
		}
		req.Host = "attacker.example"
		resp, err := (&http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).
			Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	p.Until("the tenant's own pod is served", func(context.Context) error {
		if code, err := get("/own"); err != nil || code != http.StatusOK {
			return fmt.Errorf("status %d: %w, want 200", code, err)
		}
		return nil
	})
	p.findsAddresses(pod, peer)
	for _, path := range []string{"/servers", "/named", "/sliced", "/imported"} {
		for range 5 {
			if code, err := get(path); err != nil ||
				code != http.StatusServiceUnavailable && code != http.StatusInternalServerError {
				p.Errorf("%s: got status %d, %v, want 503 or 500", path, code, err)
			}
		}
	}
	attacker.end(t)
}

func largestRoute(p place) {
	p.apply(chat + strings.Replace(plainGateway, "protocol: HTTP}",
		"protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}", 1))
	address := p.programmed("gw")[0]
	t := p.load(address)
	proxies, err := p.pods(p.Context(), p.Namespace, envoys("gw"))
	if err != nil || len(proxies) != 1 {
		p.Fatalf("proxies: got %s %v, want 1", podNames(proxies), err)
	}
	attacker := p.tenant()
	p.growsBy(p.Process(proxies[0], "/etc/penstock/bootstrap.yaml"), 64*mebibyte, func() {
		attacker.apply(strings.Replace(attacks.ExpressionRoute("large", "attacker.example"), "{name: gw}",
			"{name: gw, namespace: "+p.Namespace+"}", 1))
		p.Until("the route's condition", func(ctx context.Context) error {
			route, err := attacker.route(ctx, "large")
			if err != nil {
				return err
			}
			if text := fmt.Sprint(route.Status.Parents); !strings.Contains(text, "TooManyRegularExpressions") {
				return fmt.Errorf("it has %.2000s, want TooManyRegularExpressions", text)
			}
			return nil
		})
		p.apply(laterRoute)
		p.answers("http://" + address + "/later")
	})
	p.end(t)
}

const laterRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: later}
spec:
  parentRefs: [{name: gw}]
  rules: [{matches: [{path: {value: /later}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /health}}}], backendRefs: [{name: chat, port: 80}]}]
`

// stalledUploads sends 200 uploads of 32 MiB, which never end, to a pool whose picker reads
// prompts. Envoy may hold at most 30 of these uploads, and other requests continue.
func stalledUploads(p place) {
	p.apply(chat + plainGateway)
	address := p.programmed("gw")[0]
	t := p.load(address)
	proxies, err := p.pods(p.Context(), p.Namespace, envoys("gw"))
	if err != nil || len(proxies) != 1 {
		p.Fatalf("proxies: got %s %v, want 1", podNames(proxies), err)
	}
	uploads, err := attacks.Stall(p.Context(), net.JoinHostPort(address, "80"), "/v1/chat/completions", 200,
		32*mebibyte)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(uploads.Close)
	if stalled := 200 - uploads.Answered(); stalled == 0 || stalled > 30 {
		p.Errorf("%d uploads of 32 MiB are held, want 1 to 30", stalled)
	}
	before := t.sent.Load()
	p.Until("requests go on beside them", func(context.Context) error {
		if n := t.sent.Load() - before; n < 200 {
			return fmt.Errorf("%d were sent, want 200", n)
		}
		return nil
	})
	p.end(t)
	proxy, err := p.CoreV1().Pods(p.Namespace).Get(p.Context(), proxies[0].Name, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	for _, c := range proxy.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			p.Errorf("container %s was started again, want never: %+v", c.Name, c.LastTerminationState)
		}
	}
}
