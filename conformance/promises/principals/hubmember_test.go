package principals

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// hubMember is a cluster from which a hub reads. It writes its API server's responses, which may
// contain objects that no real API server accepts. The hub's writes to this cluster affect only the
// cluster itself.
var hubMember = principal{"member of a hub", func(t testing.TB) []field {
	w := &walker{classes: hubMemberClasses,
		unread: slices.Concat(hubMemberUnread, slices.DeleteFunc(slices.Clone(metadata), func(u unread) bool {
			return u.prefix == "*.metadata.namespace"
		})), limits: limits(t)}
	w.walk("InferencePool", reflect.TypeFor[inferencev1.InferencePool]())
	w.walk("Service", reflect.TypeFor[corev1.Service]())
	w.walk("EndpointSlice", reflect.TypeFor[discoveryv1.EndpointSlice]())
	w.walk("Gateway", reflect.TypeFor[gatewayv1.Gateway]())
	w.walk("Node", reflect.TypeFor[corev1.Node]())
	w.walk("PoolExport", reflect.TypeFor[v1alpha1.PoolExport]())
	return w.done(t)
}}

const (
	notOfHubs   = "a hub does not read it"
	notOfOthers = "it finds the object, which is the member's own"
)

var hubMemberUnread = []unread{
	{"InferencePool.metadata.labels", notOfHubs},
	{"InferencePool.spec.selector", "a hub reads no pods"},
	{"InferencePool.status.parents[].conditions", notOfHubs},
	{"Service.metadata", notOfOthers},
	{"Service.spec.selector", "a hub reads no pods"},
	{"Service.spec.ports[].protocol", notOfHubs},
	{"Service.spec.ports[].targetPort", notOfHubs},
	{"Service.spec.sessionAffinity", notOfHubs},
	{"Service.spec.sessionAffinityConfig", notOfHubs},
	{"Service.spec.loadBalancerIP", notOfHubs},
	{"Service.spec.loadBalancerSourceRanges", notOfHubs},
	{"Service.spec.externalTrafficPolicy", notOfHubs},
	{"Service.spec.healthCheckNodePort", notOfHubs},
	{"Service.spec.publishNotReadyAddresses", notOfHubs},
	{"Service.spec.ipFamilies", notOfHubs},
	{"Service.spec.ipFamilyPolicy", notOfHubs},
	{"Service.spec.allocateLoadBalancerNodePorts", notOfHubs},
	{"Service.spec.loadBalancerClass", notOfHubs},
	{"Service.spec.internalTrafficPolicy", notOfHubs},
	{"Service.spec.trafficDistribution", notOfHubs},
	{"Service.status.loadBalancer.ingress[].ipMode", notOfHubs},
	{"Service.status.loadBalancer.ingress[].ports", notOfHubs},
	{"Service.status.conditions", notOfHubs},
	{"EndpointSlice.metadata", notOfOthers},
	{"EndpointSlice.endpoints[].conditions.serving", notOfHubs},
	{"EndpointSlice.endpoints[].conditions.terminating", notOfHubs},
	{"EndpointSlice.endpoints[].hostname", notOfHubs},
	{"EndpointSlice.endpoints[].targetRef", notOfHubs},
	{"EndpointSlice.endpoints[].deprecatedTopology", notOfHubs},
	{"EndpointSlice.endpoints[].zone", notOfHubs},
	{"EndpointSlice.endpoints[].hints", notOfHubs},
	{"EndpointSlice.ports[].protocol", notOfHubs},
	{"EndpointSlice.ports[].appProtocol", notOfHubs},
	{"Gateway.metadata", notOfOthers},
	{"Gateway.spec.gatewayClassName", notOfHubs},
	{"Gateway.spec.listeners[].name", notOfHubs},
	{"Gateway.spec.listeners[].hostname", notOfHubs},
	{"Gateway.spec.listeners[].tls", notOfHubs},
	{"Gateway.spec.listeners[].allowedRoutes", notOfHubs},
	{"Gateway.spec.addresses", "a hub reads the addresses in the status"},
	{"Gateway.spec.infrastructure", notOfHubs},
	{"Gateway.spec.allowedListeners", notOfHubs},
	{"Gateway.spec.tls", notOfHubs},
	{"Gateway.spec.defaultScope", notOfHubs},
	{"Gateway.status.conditions", notOfHubs},
	{"Gateway.status.listeners", notOfHubs},
	{"Gateway.status.attachedListenerSets", notOfHubs},
	{"Node.metadata.name", notOfOthers},
	{"Node.metadata.namespace", notOfOthers},
	{"Node.metadata.annotations", notOfHubs},
	{"Node.spec", notOfHubs},
	{"Node.status.capacity", notOfHubs},
	{"Node.status.allocatable", notOfHubs},
	{"Node.status.phase", notOfHubs},
	{"Node.status.conditions", notOfHubs},
	{"Node.status.daemonEndpoints", notOfHubs},
	{"Node.status.nodeInfo", notOfHubs},
	{"Node.status.images", notOfHubs},
	{"Node.status.volumesInUse", notOfHubs},
	{"Node.status.volumesAttached", notOfHubs},
	{"Node.status.config", notOfHubs},
	{"Node.status.runtimeHandlers", notOfHubs},
	{"Node.status.features", notOfHubs},
	{"Node.status.declaredFeatures", notOfHubs},
	{"PoolExport.metadata", notOfOthers},
	{"PoolExport.spec.cluster", "a hub knows the member by its API server"},
	{"PoolExport.status.epoch", notOfHubs},
	{"PoolExport.status.sequence", notOfHubs},
	{"PoolExport.status.since", notOfHubs},
	{"PoolExport.status.entry.name", "a hub writes the member's"},
	{"PoolExport.status.entry.routingMode", "a hub reads the pool's annotation"},
	{"PoolExport.status.entry.targetPortNumber", "a hub reads the pool's"},
	{"PoolExport.status.entry.targetPorts", "a hub reads the pool's"},
	{"PoolExport.status.entry.endpoints", "no endpoints pass through an API server"},
	{"PoolExport.status.entry.parents", "a hub reads the Gateways"},
	{"PoolExport.status.entry.weight", "a hub reads the pool's annotation"},
	{"PoolExport.status.entry.appProtocol", "a hub reads the pool's"},
	{"PoolExport.status.entry.region", "a hub reads the nodes"},
	{"PoolExport.status.entry.zone", "a hub reads the nodes"},
	{"PoolExport.status.entry.local", "a hub writes its own"},
	{"PoolExport.status.entry.conditions", "a hub writes its own"},
	{"PoolExport.status.conditions", notOfHubs},
}

var hubMemberClasses = map[string]class{
	"name": name, "namespace": namespace, "hostname": host, "ip": address, "address": address, "value": address,
	"addresses[]": address, "clusterIP": address, "clusterIPs[]": address, "externalIPs[]": address,
	"externalName": host,
	"podCIDRs[]":   address, "endpointPicker.pool": name, "spec.pool": name, "failureMode": choice, "appProtocol": text,
	"labels[]": label, "type": text, "protocol": text, "addressType": text,
}

// hubRig is a hub with three members: an honest member that exports each pool, an importer that
// stores objects as an API server does, and a hostile member.
type hubRig struct {
	*run
	east, west, evil *kubetest.Server
	page             string
}

const team = "team"

func newHubRig(t testing.TB, r *run) *hubRig {
	t.Helper()
	h := &hubRig{run: r}
	dir := t.TempDir()
	set :=
		"apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: set}\nspec:\n  cluster: management\n  " +
			"members:\n"
	for name, api := range map[string]**kubetest.Server{"east": &h.east, "west": &h.west, "evil": &h.evil} {
		*api = kubetest.New(t)
		if name != "evil" {
			(*api).Strict(t)
		}
		for _, ns := range []string{"kube-system", team} {
			(*api).Put("namespaces", kubetest.Object{
				"apiVersion": "v1", "kind": "Namespace", "metadata": kubetest.Object{"name": ns},
			})
		}
		set += fmt.Sprintf(
			"  - {name: %[1]s, kubeconfig: {file: %[1]s.yaml}, allow: {namespaces: [team], cleartext: true}}\n", name)
		text := fmt.Sprintf(
			`{apiVersion: v1, kind: Config, current-context: it, contexts: [{name: it, context: {cluster: it, user: it}}],
  clusters: [{name: it, cluster: {server: %q}}], users: [{name: it, user: {}}]}`, (*api).Config().Host)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "set.yml"), []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	port := processtest.Port(t)
	h.page = "http://" + local(port) + "/members"
	p, err := process.Start("hub", filepath.Join(dir, "hub.log"), binaries.penstock, nil, "hub", "-f",
		filepath.Join(dir, "set.yml"),
		"--kubeconfigs", dir, "--state", filepath.Join(dir, "state"), "--admin", local(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(10 * time.Second) })
	return h
}

type hubCell struct {
	cell
	pool string // the honest member's pool, without namespace
	at   string // the hostile member's pool, "namespace/name"
}

func metaOf(namespace, name string) map[string]any {
	m := map[string]any{"name": name}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return m
}

func validPoolExport(name, address string) map[string]any {
	at := func() map[string]any {
		return map[string]any{"port": 9003, "secretRef": map[string]any{"name": "a", "namespace": "b"}}
	}
	return map[string]any{
		"apiVersion": "penstock.dev/v1alpha1", "kind": "PoolExport", "metadata": metaOf(team, name+".evil"),
		"spec": map[string]any{"cluster": "evil", "pool": name},
		"status": map[string]any{"clusterUID": "", "withdrawn": false, "entry": map[string]any{
			"name": "evil", "routingMode": "EndpointMode", "targetPortNumber": 8000, "failureMode": "FailOpen",
			"podCIDRs": []any{"10.0.0.0/8"},
			"endpointPicker": map[string]any{
				"name": "penstock", "pool": team + "/" + name, "peer": false, "health": at(), "metrics": at(),
				"service": []any{
					map[string]any{"type": "ClusterIP", "addresses": []any{address},
						"ports": []any{map[string]any{"number": 9002, "name": "a", "appProtocol": "b"}}},
				},
			},
		}},
	}
}

// valid returns the objects by which a member exports a pool, by kind. The pool is exported in such
// a way that the hub reads objects of this kind.
func valid(kind, name, address string) map[string]map[string]any {
	ref := map[string]any{"group": "", "kind": "Service", "name": name + "-epp", "port": map[string]any{"number": 9002},
		"failureMode": "FailOpen"}
	pool := map[string]any{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": metaOf(team, name),
		"spec": map[string]any{
			"selector":    map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"targetPorts": []any{map[string]any{"number": 8000}},
			"appProtocol": "http", "endpointPickerRef": ref,
		},
		"status": map[string]any{"parents": []any{map[string]any{
			"controllerName": "example.com/gateway",
			"parentRef": map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": team,
				"name": name + "-gw"},
		}}},
	}
	annotations := map[string]any{"inference.networking.x-k8s.io/export": "ClusterSet"}
	pool["metadata"].(map[string]any)["annotations"] = annotations
	service := map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": metaOf(team, name+"-epp"),
		"spec": map[string]any{
			"type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": []any{"10.96.0.9"},
			"externalIPs": []any{address}, "externalName": "",
			"ports": []any{
				map[string]any{"name": "grpc", "port": 9002, "nodePort": 30002, "appProtocol": "kubernetes.io/h2c"},
			},
		},
		"status": map[string]any{
			"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": address, "hostname": ""}}},
		},
	}
	out := map[string]map[string]any{"InferencePool": pool, "Service": service}
	switch kind {
	case "EndpointSlice", "Node":
		service["spec"].(map[string]any)["type"] = map[string]string{
			"EndpointSlice": "ClusterIP", "Node": "NodePort",
		}[kind]
		meta := metaOf(team, name+"-epp")
		meta["labels"] = map[string]any{"kubernetes.io/service-name": name + "-epp"}
		out["EndpointSlice"] = map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4",
			"endpoints": []any{
				map[string]any{"addresses": []any{address}, "conditions": map[string]any{"ready": true},
					"nodeName": name},
			},
			"ports": []any{map[string]any{"name": "grpc", "port": 9002}},
		}
		node := metaOf("", name)
		node["labels"] = map[string]any{"topology.kubernetes.io/region": "here"}
		out["Node"] = map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": node,
			"status": map[string]any{"addresses": []any{map[string]any{"type": "InternalIP", "address": address}}},
		}
	case "Gateway":
		annotations["inference.networking.x-k8s.io/export-mode"] = "ParentMode"
		out["Gateway"] = map[string]any{
			"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metaOf(team, name+"-gw"),
			"spec": map[string]any{"gatewayClassName": "x",
				"listeners": []any{map[string]any{"name": "a", "port": 80, "protocol": "HTTP"}}},
			"status": map[string]any{"addresses": []any{map[string]any{"value": address}}},
		}
	case "PoolExport":
		delete(pool["spec"].(map[string]any), "endpointPickerRef")
		out["PoolExport"] = validPoolExport(name, address)
	}
	return out
}

var hubResources = map[string]string{
	"InferencePool": "inferencepools", "Service": "services", "EndpointSlice": "endpointslices", "Gateway": "gateways",
	"Node":       "nodes",
	"PoolExport": "poolexports",
}

// No object in a member's API server may remove another member's entry from an import, or block the
// entry's next change.
func TestPrincipals_HubMemberTakesNoImportFromOthers(t *testing.T) {
	r := &run{t: t, p: hubMember, table: readMatrix(t).of(hubMember.name), observed: matrix{}}
	h := newHubRig(t, r)
	fields := map[string]field{}
	for _, f := range hubMember.fields(t) {
		fields[f.path] = f
	}
	var cells []*hubCell
	for i, c := range r.cells() {
		cells = append(cells, h.place(c, fmt.Sprint("c", i), fields[c.field], limits(t)(c.field)))
	}
	h.expect(cells, "192.0.2.1")
	h.honest(cells, "192.0.2.2")
	h.expect(cells, "192.0.2.2")
	for _, c := range cells {
		var o outcome
		var evidence string
		poll.Within(20*time.Second, func() bool {
			o, evidence = h.judge(c)
			return o != silent
		})
		h.saw(c.cell, o, evidence)
	}
	h.end()
}

// place makes both members export a pool. The hostile member's objects have the cell's value.
func (h *hubRig) place(c cell, pool string, f field, limit *apiextensionsv1.JSONSchemaProps) *hubCell {
	h.t.Helper()
	kind, steps := split(c.field)
	objects := valid(kind, pool, "198.51.100.1")
	o := objects[kind]
	set(o, steps, literal(f, c.value, limit, current(o, steps)))
	for k, obj := range objects {
		h.evil.Put(hubResources[k], obj)
	}
	meta, _ := objects["InferencePool"]["metadata"].(map[string]any)
	out := &hubCell{c, pool, fmt.Sprintf("%v/%v", meta["namespace"], meta["name"])}
	h.honest([]*hubCell{out}, "192.0.2.1")
	return out
}

func (h *hubRig) honest(cells []*hubCell, address string) {
	for _, c := range cells {
		for kind, obj := range valid("InferencePool", c.pool, address) {
			h.east.Put(hubResources[kind], obj)
		}
	}
}

func (h *hubRig) expect(cells []*hubCell, address string) {
	h.t.Helper()
	for _, c := range cells {
		poll.NoError(h.t, c.String()+": the honest member's entry", 2*time.Minute, func() error {
			if got := h.entries(team + "/" + c.pool)["east"]; got != address {
				return fmt.Errorf("%q, want %q", got, address)
			}
			return nil
		})
	}
}

func (h *hubRig) entries(pool string) map[string]string {
	h.t.Helper()
	var status inferenceapi.InferencePoolImportStatus
	decodeStatus(h.t, h.west.Get(inferenceapi.Group, "inferencepoolimports", pool), &status)
	out := map[string]string{}
	for _, c := range status.Clusters {
		out[c.Name] = "none"
		if p := c.EndpointPicker; p != nil && len(p.Service[0].Addresses) > 0 {
			out[c.Name] = p.Service[0].Addresses[0]
		}
	}
	return out
}

func decodeStatus(t testing.TB, obj kubetest.Object, into any) {
	t.Helper()
	raw, err := json.Marshal(obj["status"])
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// judge observes a cell's outcome: whether the importer has the entry, and the report in the pool's
// condition or on the hub's page.
func (h *hubRig) judge(c *hubCell) (outcome, string) {
	h.t.Helper()
	_, imported := h.entries(c.at)["evil"]
	obj := h.evil.Get("inference.networking.k8s.io", "inferencepools", c.at)
	condition := exportedOf(obj)
	switch {
	case strings.HasPrefix(condition, "True"):
		return bounded, condition
	case condition != "" && imported:
		return finding, condition
	case condition != "":
		return denied, condition
	case imported:
		return bounded, "it is imported"
	}
	meta, _ := obj["metadata"].(map[string]any)
	if asked, _ := meta["annotations"].(map[string]any); asked["inference.networking.x-k8s.io/export"] == nil {
		return bounded, "it asks for no export"
	}
	if text := h.problems(); strings.Contains(text, c.at) || strings.Contains(text, "more") ||
		strings.Contains(text, "names are invalid") {
		return denied, text
	}
	return silent, "no condition, and nothing on the hub's page: " + h.problems()
}

func exportedOf(obj kubetest.Object) string {
	status, _ := obj["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	for _, p := range parents {
		p, _ := p.(map[string]any)
		list, _ := p["conditions"].([]any)
		for _, c := range list {
			if c, _ := c.(map[string]any); c["type"] == "Exported" {
				return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
			}
		}
	}
	return ""
}

func (h *hubRig) problems() string {
	resp, err := http.Get(h.page)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	var page struct {
		Problems map[string]struct{ Field, Problem string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return ""
	}
	var out []string
	for _, p := range page.Problems {
		if strings.Contains(p.Field, "evil") {
			out = append(out, p.Problem)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
