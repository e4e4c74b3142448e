package pipeline_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// withoutEffect lists fields that need have no effect, including the fields below them, with the
// reasons.
var withoutEffect = map[string]string{
	"AccessPolicy.spec.members[]": "peer listeners exist in cluster sets: tests of translator and " +
		"conformance/features",
	"AccessPolicy.spec.targetRefs[].group": "each kind has one group, and another one is invalid",
	"ClusterProperty": "it names this cluster in its cluster set, which is not translation: " +
		"clusterset's tests",
	"ClusterSet": "the cluster set is not translation: tests of clusterset and multicluster",
	"ConfigMap":  "immutable is for the API server; data and binaryData are read for their text",
	"EndpointPickerConfig": "manifests/endpointpicker compares its table of plugins and fields with " +
		"documents of llm-d",
	"Engine":          "tests of discovery/engine and discovery/engine/controller, which derive other objects",
	"ModelDeployment": "tests of discovery/engine and discovery/engine/controller, which derive other objects",
	"ModelRegistry":   "tests of discovery/engine/controller, which downloads models",
	"EndpointSlice.endpoints[]": "requests do not prefer zones, nodes or hints; serving and ready decide about " +
		"terminating ones",
	"EndpointSlice.ports[]": "the appProtocol of the Service counts",
	"GRPCRoute.spec.rules[].backendRefs[].filters[].extensionRef.name": "the finding about the kind has the place",
	"GRPCRoute.spec.rules[].filters[].extensionRef.name":               "the finding about the kind has the place",
	"HTTPRoute.spec.rules[].filters[].extensionRef.name":               "the finding about the kind has the place",
	"GatewayClass.spec":        "the description is for readers",
	"InferencePoolImport.spec": "it is empty",
	"InferencePoolImport.status.clusters[].conditions[]": "what is beside type, status and reason is " +
		"for readers",
	"InferencePoolImport.status.clusters[].endpointPicker.name": "it is documented as information",
	"InferencePoolImport.status.clusters[].endpointPicker.service": "the addresses are reached whatever the type is, " +
		"and ports have numbers",
	"InferencePoolImport.status.clusters[].parents[]": "names and types are documented as information; " +
		"of conditions, type and status count",
	"InferencePoolImport.status.clusters[].targetPorts[].name": "ports have numbers",
	"InferencePoolImport.status.conditions[]": "what is beside type, status and reason is " +
		"for readers",
	"InferencePoolImport.status.controllers": "False conditions count (tests of " +
		"translator/inference); the rest is for readers",
	"InferencePoolImport.status.observedGeneration": "an import has no spec to be behind of",
	"Namespace.spec":                  "namespaces are read for their labels",
	"Pod":                             "pods are read for their address, ports and readiness",
	"PoolPolicy.spec.spill[].group":   "pools have been in both groups, so the kind decides",
	"PoolPolicy.spec.targetRef.group": "pools have been in both groups, so the kind decides",
	"Secret":                          "the keys of data decide, not the type",
	"Service": "what kube-proxy and load balancers do is not done here; the status is read " +
		"for exports",
	"ServiceImport.spec":         "what kube-proxy does is not done here",
	"TCPRoute.spec.rules[].name": "it identifies a rule for readers",
	"TLSRoute.spec.rules[].name": "it identifies a rule for readers",
	"UDPRoute.spec.rules[].name": "it identifies a rule for readers",
}

// effective lists the fields below withoutEffect that have an effect.
var effective = []string{
	"ConfigMap.data",
	"EndpointSlice.endpoints[].addresses",
	"EndpointSlice.endpoints[].conditions.ready",
	"EndpointSlice.endpoints[].conditions.serving",
	"EndpointSlice.ports[].name", "EndpointSlice.ports[].port", "EndpointSlice.ports[].protocol",
	"GatewayClass.spec.controllerName", "GatewayClass.spec.parametersRef",
	"InferencePoolImport.status.clusters[].conditions[].type",
	"InferencePoolImport.status.clusters[].conditions[].status",
	"InferencePoolImport.status.clusters[].endpointPicker.service[].addresses",
	"InferencePoolImport.status.clusters[].endpointPicker.service[].ports[].number",
	"InferencePoolImport.status.clusters[].endpointPicker.service[].ports[].appProtocol",
	"InferencePoolImport.status.clusters[].parents[].conditions[].type",
	"InferencePoolImport.status.clusters[].parents[].conditions[].status",
	"InferencePoolImport.status.clusters[].parents[].hostname",
	"InferencePoolImport.status.clusters[].parents[].peer",
	"InferencePoolImport.status.clusters[].parents[].service[].addresses",
	"InferencePoolImport.status.clusters[].parents[].service[].ports[].number",
	"InferencePoolImport.status.clusters[].parents[].service[].ports[].appProtocol",
	"InferencePoolImport.status.conditions[].type", "InferencePoolImport.status.conditions[].status",
	"Pod.spec.containers[].ports[].name",
	"Pod.spec.containers[].ports[].containerPort",
	"Pod.spec.containers[].ports[].protocol",
	"Pod.spec.initContainers[].ports[].name",
	"Pod.spec.initContainers[].ports[].containerPort",
	"Pod.spec.initContainers[].ports[].protocol",
	"Pod.spec.initContainers[].restartPolicy",
	"Pod.status.phase", "Pod.status.podIP", "Pod.status.conditions[].type", "Pod.status.conditions[].status",
	"Secret.data", "Secret.stringData",
	"Service.spec.externalName",
	"Service.spec.ports[].appProtocol",
	"Service.spec.ports[].name",
	"Service.spec.ports[].port",
	"Service.spec.ports[].protocol",
	"Service.spec.ports[].targetPort",
	"Service.spec.publishNotReadyAddresses",
	"Service.spec.selector",
	"Service.spec.type",
	"ServiceImport.spec.ips", "ServiceImport.spec.ports",
}

var validValues = map[string][]any{
	"APIKey.spec.models[]":      {"team-*"},
	"APIKey.spec.hashes[]":      {strings.Repeat("ab", sha256.Size)},
	"EndpointSlice.addressType": {"FQDN"}, "EndpointSlice.ports[].protocol": {"UDP"},
	"Service.spec.ports[].protocol":          {"UDP"},
	"Pod.spec.containers[].ports[].protocol": {"UDP"}, "Pod.spec.initContainers[].ports[].protocol": {"UDP"},
	"Pod.status.phase": {"Failed"}, "Pod.status.conditions[].status": {"False", "True"},
}

const maxWithoutEffect = 34

// mostAdded bounds how many objects a field is added to if no object has it.
const mostAdded = 4

// unread are the parts of every kind, in addition to the status, that are no input.
var unread = []string{".apiVersion", ".kind", ".metadata"}

var statusIsInput = []string{"InferencePoolImport", "Pod", "Service"}

// Every field of every kind must have an effect: some valid change of it changes resources of
// Envoys, fleets or pickers, or a finding or condition. testdata/objects and testdata/fields have
// an object with each field.
func TestFields_EachHasAnEffectOrAFinding(t *testing.T) {
	all := schemas(t)
	tried := map[string]int{} // by pattern: how many objects got the field
	has := map[string]bool{}  // by pattern: whether the field has an effect; absent if no object has the field
	values := maps.Clone(validValues)
	worlds := worldsOfFields(t)
	for _, w := range worlds {
		for _, p := range w.places {
			pattern, leaf := w.pattern(p, all)
			if leaf != nil && !slices.ContainsFunc(values[pattern],
				func(v any) bool { return v == p.value(w.objects) }) {
				values[pattern] = append(values[pattern], p.value(w.objects))
			}
		}
	}
	for _, w := range worlds {
		before := observe(t, w.objects)
		if len(before.invalid) > 0 {
			t.Fatalf("%s: got %q, want nothing invalid", w.name, before.invalid)
		}
		for _, p := range w.places {
			pattern, leaf := w.pattern(p, all)
			if leaf != nil && !has[pattern] && exceptionOf(pattern) == "" {
				has[pattern] = w.changes(t, p, leaf, before, values[pattern])
			}
		}
		for _, p := range w.absent(all) {
			pattern, leaf := w.pattern(p, all)
			if _, known := has[pattern]; known || exceptionOf(pattern) != "" || tried[pattern] == mostAdded {
				continue
			}
			tried[pattern]++
			if w.adds(t, p, leaf, before, values[pattern]) {
				has[pattern] = true
			}
		}
	}
	judge(t, all, has)
}

func judge(t *testing.T, all map[string]*node, has map[string]bool) {
	t.Helper()
	if len(withoutEffect) > maxWithoutEffect {
		t.Errorf("%d fields may be without effect, want at most %d", len(withoutEffect), maxWithoutEffect)
	}
	used := map[string]bool{}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		for pattern, leaf := range all[kind].leaves(kind) {
			rest := strings.TrimPrefix(pattern, kind)
			if slices.ContainsFunc(unread, func(p string) bool { return under(rest, p) }) ||
				under(rest, ".status") && !slices.Contains(statusIsInput, kind) {
				continue
			}
			exception := exceptionOf(pattern)
			effect, clusterSet := has[pattern]
			switch {
			case effect, len(leaf.enum) == 1: // no other value is valid
			case exception != "":
				used[exception] = true
			case !clusterSet:
				t.Errorf("%s: no object of testdata sets it, want one", pattern)
			default:
				t.Errorf("%s: no change of it changes anything, want an effect", pattern)
			}
		}
	}
	for e := range withoutEffect {
		if !used[e] {
			t.Errorf("%s is in the list of fields without effect, and is no field of that kind", e)
		}
	}
}

// exceptionOf returns the entry of withoutEffect for a field; "": none.
func exceptionOf(pattern string) (exception string) {
	if slices.ContainsFunc(effective, func(e string) bool { return under(pattern, e) }) {
		return ""
	}
	for e := range withoutEffect {
		if under(pattern, e) && len(e) > len(exception) {
			exception = e
		}
	}
	return exception
}

func under(pattern, field string) bool {
	rest, ok := strings.CutPrefix(pattern, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// world has the objects of a file and of base.yaml. places are the fields of the file's objects.
type world struct {
	name    string
	objects []map[string]any
	places  []place
}

func worldsOfFields(t *testing.T) (out []world) {
	t.Helper()
	base := readObjects(t, "base.yaml")
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		w := world{name: f, objects: readFile(t, f)}
		w.places = fieldsOf(w.objects)
		if filepath.Base(f) != "base.yaml" {
			w.objects = slices.Concat(w.objects, base)
		}
		out = append(out, w)
	}
	return out
}

// pattern names a field for all objects of a kind: "HTTPRoute.spec.hostnames[]". leaf is the schema
// of its deepest known part, or nil for an unknown kind.
func (w world) pattern(p place, all map[string]*node) (pattern string, leaf *node) {
	kind, _ := w.objects[p.object]["kind"].(string)
	n := all[kind]
	if n == nil {
		return kind, nil
	}
	pattern = kind
	for _, key := range p.path {
		below, name := n.child(key)
		if below == nil {
			break
		}
		n, pattern = below, pattern+name
	}
	return pattern, n
}

func (p place) value(objects []map[string]any) any {
	var at any = objects[p.object]
	for _, key := range p.path {
		switch v := at.(type) {
		case map[string]any:
			at = v[key]
		case []any:
			n, _ := strconv.Atoi(key)
			at = v[n]
		}
	}
	return at
}

// changes reports whether a valid change of a field has an effect. If no change of an enumerated
// field is valid, for example because the field selects a sibling, findings count as its effect.
func (w world) changes(t *testing.T, p place, leaf *node, before observation, seen []any) bool {
	t.Helper()
	valid := false
	try := func(objects []map[string]any) bool {
		after := observe(t, objects)
		valid = valid || len(after.invalid) == 0
		return len(after.invalid) == 0 && after.digest != before.digest
	}
	for _, v := range alternatives(p.value(w.objects), leaf, seen) {
		objects := clone(t, w.objects)
		p.replace(objects, v)
		if try(objects) {
			return true
		}
	}
	without := clone(t, w.objects)
	p.leaveOut(without)
	if try(without) {
		return true
	}
	return !valid && len(leaf.enum) > 0
}

func (w world) adds(t *testing.T, p place, leaf *node, before observation, seen []any) bool {
	t.Helper()
	for _, v := range slices.Concat(leaf.enum, seen, anyValues[leaf.scalar]) {
		objects := clone(t, w.objects)
		p.add(objects, v)
		if after := observe(t, objects); len(after.invalid) == 0 && after.digest != before.digest {
			return true
		}
	}
	return false
}

var anyValues = map[string][]any{
	"string":  {"x", "7s", "example.net", "203.0.113.9", "other.example:8444", "203.0.113.0/24"},
	"integer": {7.0, 443.0}, "boolean": {true, false},
}

// absent lists the leaves that an object lacks although it has siblings of them.
func (w world) absent(all map[string]*node) (out []place) {
	seen := map[string]bool{}
	for _, p := range w.places {
		for i := range p.path {
			parent := place{object: p.object, name: p.name, path: p.path[:i]}
			has, _ := parent.value(w.objects).(map[string]any)
			_, n := w.pattern(parent, all)
			if n == nil || has == nil || seen[fmt.Sprint(p.object, parent)] {
				continue
			}
			seen[fmt.Sprint(p.object, parent)] = true
			for _, name := range slices.Sorted(maps.Keys(n.fields)) {
				field := n.fields[name]
				path := append(slices.Clone(parent.path), name)
				if field.items != nil {
					field, path = field.items, append(path, "0")
				} else if field.values != nil {
					field, path = field.values, append(path, "key")
				}
				top := i == 0 && slices.Contains(unread, "."+name)
				if has[name] == nil && len(field.fields) == 0 && field.items == nil && field.values == nil && !top {
					out = append(out, place{object: p.object, name: p.name, path: path})
				}
			}
		}
	}
	return out
}

func (p place) add(objects []map[string]any, value any) {
	for at := len(p.path) - 1; ; at-- {
		parent := place{object: p.object, path: p.path[:at]}
		if m, ok := parent.value(objects).(map[string]any); ok {
			m[p.path[at]] = value
			return
		}
		if p.path[at] == "0" {
			value = []any{value}
		} else {
			value = map[string]any{p.path[at]: value}
		}
	}
}

func alternatives(v any, leaf *node, seen []any) (out []any) {
	out = append(out, leaf.enum...)
	out = append(out, seen...)
	switch v := v.(type) {
	case bool:
		out = append(out, !v)
	case float64:
		out = append(out, v+1, v-1, v+7, 1, 2)
	case string:
		out = append(append(out, v+"x", "x"+v), anyValues["string"]...)
		if raw, err := base64.StdEncoding.DecodeString(v); err == nil && len(raw) > 100 {
			out = append(out, base64.StdEncoding.EncodeToString(raw[:100]))
		}
	}
	return slices.DeleteFunc(out, func(o any) bool { return o == v })
}

func (p place) replace(objects []map[string]any, value any) {
	var at any = objects[p.object]
	for i, key := range p.path {
		last := i == len(p.path)-1
		switch v := at.(type) {
		case map[string]any:
			if last {
				v[key] = value
			}
			at = v[key]
		case []any:
			n, _ := strconv.Atoi(key)
			if last {
				v[n] = value
			}
			at = v[n]
		}
	}
}

func (p place) leaveOut(objects []map[string]any) {
	parent := place{object: p.object, path: p.path[:len(p.path)-1]}
	key := p.path[len(p.path)-1]
	switch v := parent.value(objects).(type) {
	case map[string]any:
		delete(v, key)
	case []any:
		n, _ := strconv.Atoi(key)
		parent.replace(objects, slices.Delete(slices.Clone(v), n, n+1))
	}
}

type observation struct {
	digest  [sha256.Size]byte
	invalid []string // errors of the file reader
}

func observe(t *testing.T, objects []map[string]any) (out observation) {
	t.Helper()
	done := readAll(t, objects, membership(t))
	if out.invalid = errorsOf(done.read); len(out.invalid) > 0 {
		return out
	}
	done.translate(t)
	h := sha256.New()
	note := func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%T: %v", v, err)
		}
		h.Write(raw)
	}
	for _, r := range done.read {
		for i := range r.Findings {
			r.Findings[i].Source = ""
		}
		note(r)
	}
	for _, gateway := range done.Gateways() {
		for _, r := range done.Resources(gateway) {
			note([]any{gateway, r.Ref, r.Version})
		}
		noteFleet(done, gateway, note)
	}
	o := done.out
	note([]any{o.Reports, o.Parents, o.Ordered, o.Unusable, o.Pickers, o.Names})
	note(o.Pools)
	noteGates(done.view, note)
	note(set.Check(done.view, time.Unix(0, 0)))
	out.digest = [sha256.Size]byte(h.Sum(nil))
	return out
}

func noteGates(view *store.View, note func(any)) {
	for _, k := range store.APIKeys.All(view) {
		note(gates.KeyOf(view, objectid.Join(k.Namespace, k.Name)))
	}
	for _, p := range store.AccessPolicies.All(view) {
		policy := gates.PolicyOf(view, objectid.Join(p.Namespace, p.Name))
		note([]any{policy.Namespaces, fmt.Sprint(policy.Selector), policy.ByModel, policy.JWT})
	}
}

func errorsOf(reports []report.Report) (out []string) {
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Severity == report.Error {
				out = append(out, f.String())
			}
		}
	}
	return out
}

func membership(t *testing.T) store.Op {
	t.Helper()
	for _, o := range readObjects(t, "base.yaml") {
		if o["kind"] != "Secret" {
			continue
		}
		data := o["data"].(map[string]any)
		chain, _ := base64.StdEncoding.DecodeString(data["tls.crt"].(string))
		key, _ := base64.StdEncoding.DecodeString(data["tls.key"].(string))
		return store.Memberships.Put(&store.Membership{
			ObjectMeta: metav1.ObjectMeta{Name: store.OwnMembership}, Set: "set", Cluster: "here", Region: "eu",
			Zone:  "eu-1",
			Chain: chain, Key: key, Members: []store.Member{{Name: "b", Bundle: chain}, {Name: "d", Bundle: chain}},
		})
	}
	t.Fatal("no certificate")
	return store.Op{}
}

func noteFleet(done translated, gateway string, note func(any)) {
	spec := done.Fleet(gateway)
	note(spec)
	g, ok := store.Gateways.Get(done.view, gateway)
	if !ok || spec == nil {
		return
	}
	objects, err := render.Objects(render.Settings{
		ADS: []string{"penstock.example:18000"}, CA: []byte("CA"), EnvoyImage: "envoy", PenstockImage: "penstock",
		ExternalIPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
	}, render.Fleet{Gateway: g, Spec: spec, Ports: []render.Port{{Number: 8080, Name: "http"}}})
	note(fmt.Sprint(err))
	for _, o := range objects {
		note(o)
	}
}
