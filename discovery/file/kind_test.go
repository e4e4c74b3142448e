package file_test

import (
	"strconv"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func read[T store.Object](t *testing.T, table *store.Table[T], text string) (objects []T, findings []string) {
	t.Helper()
	f := newFolder(t)
	f.write("x.yaml", text)
	f.load()
	return table.All(f.store.View()), f.findings()
}

// valid reads one document, which must become one object without findings.
func valid[T store.Object](t *testing.T, table *store.Table[T], text string) T {
	t.Helper()
	objects, findings := read(t, table, text)
	if len(objects) != 1 || len(findings) > 0 {
		t.Fatalf("%d objects, findings %q; want 1, and none", len(objects), findings)
	}
	return objects[0]
}

// invalid reads one document, which must yield one finding and no object.
func invalid[T store.Object](t *testing.T, table *store.Table[T], text, finding string) {
	t.Helper()
	objects, findings := read(t, table, text)
	if len(objects) > 0 || len(findings) != 1 || !strings.Contains(findings[0], finding) {
		t.Errorf("%d objects, findings %q, want one with %q", len(objects), findings, finding)
	}
}

func object(apiVersion, kind, rest string) string {
	return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: x}\n" + rest
}

func TestGatewayClass_V1Beta1IsRead(t *testing.T) {
	c := valid(t, store.GatewayClasses,
		object("gateway.networking.k8s.io/v1beta1", "GatewayClass",
			"spec: {controllerName: penstock.dev/gateway-controller}\n"))
	if c.APIVersion != "gateway.networking.k8s.io/v1" || c.Namespace != "" {
		t.Errorf("class %s in namespace %q, want gateway.networking.k8s.io/v1 in none", c.APIVersion, c.Namespace)
	}
}

func TestGateway_UnknownProtocolIsReported(t *testing.T) {
	invalid(t, store.Gateways,
		object("gateway.networking.k8s.io/v1", "Gateway", "spec:\n  listeners: [{name: a, port: 80, protocol: HTP}]\n"),
		`spec.listeners[0].protocol: is not a known protocol: "HTP"; write one of HTTP, HTTPS, TLS, TCP, UDP`)
}

func TestListenerSet_UnknownProtocolIsReported(t *testing.T) {
	invalid(t, store.ListenerSets,
		object("gateway.networking.k8s.io/v1", "ListenerSet",
			"spec:\n  parentRef: {name: gw}\n  listeners: [{name: a, port: 80, protocol: HTP}]\n"),
		`spec.listeners[0].protocol: is not a known protocol: "HTP"`)
}

func TestHTTPRoute_V1Beta1IsRead(t *testing.T) {
	r := valid(t, store.HTTPRoutes, strings.Replace(route("chat", "a.example.com"), "io/v1", "io/v1beta1", 1))
	if r.APIVersion != "gateway.networking.k8s.io/v1" {
		t.Errorf(`route of %s, want "gateway.networking.k8s.io/v1"`, r.APIVersion)
	}
}

func TestGRPCRoute_V1Alpha2IsReadWithDefaults(t *testing.T) {
	r := valid(t, store.GRPCRoutes,
		object("gateway.networking.k8s.io/v1alpha2", "GRPCRoute",
			"spec:\n  rules: [{matches: [{method: {service: a.B}}], backendRefs: [{name: s, port: 80}]}]\n"))
	if m := r.Spec.Rules[0].Matches[0].Method.Type; m == nil || *m != gatewayv1.GRPCMethodMatchExact {
		t.Errorf("match type %v, want %s", m, gatewayv1.GRPCMethodMatchExact)
	}
}

func TestTLSRoute_HostnameIsRequired(t *testing.T) {
	invalid(t, store.TLSRoutes,
		object("gateway.networking.k8s.io/v1", "TLSRoute", "spec:\n  rules: [{backendRefs: [{name: s, port: 443}]}]\n"),
		"spec.hostnames: is missing; write a list")
}

func TestTCPRoute_PortOfServiceIsRequired(t *testing.T) {
	invalid(t, store.TCPRoutes,
		object("gateway.networking.k8s.io/v1", "TCPRoute", "spec:\n  rules: [{backendRefs: [{name: s}]}]\n"),
		"spec.rules[0].backendRefs[0]: Must have port for Service reference")
}

func TestUDPRoute_V1Alpha2IsReadAndPortOfServiceIsRequired(t *testing.T) {
	r := valid(t, store.UDPRoutes, object("gateway.networking.k8s.io/v1alpha2", "UDPRoute",
		"spec:\n  rules: [{backendRefs: [{name: s, port: 53}]}]\n"))
	if r.APIVersion != "gateway.networking.k8s.io/v1" || len(r.Spec.Rules) != 1 {
		t.Errorf(`route of %s with %d rules, want "gateway.networking.k8s.io/v1" and 1`,
			r.APIVersion, len(r.Spec.Rules))
	}
	invalid(t, store.UDPRoutes,
		object("gateway.networking.k8s.io/v1", "UDPRoute", "spec:\n  rules: [{backendRefs: [{name: s}]}]\n"),
		"spec.rules[0].backendRefs[0]: Must have port for Service reference")
}

func TestReferenceGrant_EveryVersionIsRead(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha2"} {
		g := valid(t, store.ReferenceGrants, object("gateway.networking.k8s.io/"+version, "ReferenceGrant",
			"spec:\n  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: a}]\n  to: [{group: '', "+
				"kind: Service}]\n"))
		if len(g.Spec.From) != 1 || len(g.Spec.To) != 1 {
			t.Errorf("%s: got %+v, want one from and one to", version, g.Spec)
		}
	}
}

func TestBackendTLSPolicy_WithoutAnyCAIsInvalid(t *testing.T) {
	invalid(t, store.BackendTLSPolicies, object("gateway.networking.k8s.io/v1alpha3", "BackendTLSPolicy",
		"spec:\n  targetRefs: [{group: '', kind: Service, name: s}]\n  validation: {hostname: a.example.com}\n"),
		"must specify either CACertificateRefs or WellKnownCACertificates")
}

func TestPod_TerminatingOneStaysSo(t *testing.T) {
	text := "metadata: {name: x, deletionTimestamp: \"2026-01-01T00:00:00Z\"}\n"
	p := valid(t, store.Pods, "apiVersion: v1\nkind: Pod\n"+text)
	if p.DeletionTimestamp == nil {
		t.Error("the pod takes new requests although it ends")
	}
	if s := valid(t, store.ConfigMaps, "apiVersion: v1\nkind: ConfigMap\n"+text); s.DeletionTimestamp != nil {
		t.Error("an object that was exported from a cluster while it was deleted has no effect")
	}
}

func TestInferencePool_V1Alpha2IsConverted(t *testing.T) {
	p := valid(t, store.InferencePools, object("inference.networking.x-k8s.io/v1alpha2", "InferencePool",
		"spec: {targetPortNumber: 8000, selector: {app: x}, extensionRef: {name: epp}}\n"))
	if p.Spec.TargetPorts[0].Number != 8000 || p.Spec.Selector.MatchLabels["app"] != "x" ||
		p.Spec.EndpointPickerRef.Port.Number != 9002 {
		t.Errorf("converted to %+v, want port 8000, app x and picker port 9002", p.Spec)
	}
}

func TestInferencePoolImport_InvalidPodAddressIsReported(t *testing.T) {
	invalid(t, store.InferencePoolImports, object("inference.networking.x-k8s.io/v1alpha1", "InferencePoolImport",
		"status:\n  clusters: [{name: a, routingMode: EndpointMode, targetPorts: [{number: 8000}], podCIDRs: "+
			"[10.1.0.0]}]\n"),
		`status.clusters[0].podCIDRs[0]: must be a CIDR range, is "10.1.0.0"; write a range such as 10.244.0.0/16`)
}

func TestInferenceModel_UnknownCriticalityIsReported(t *testing.T) {
	invalid(t, store.InferenceModels, object("inference.networking.x-k8s.io/v1alpha2", "InferenceModel",
		"spec: {modelName: m, criticality: critical, poolRef: {name: llama}}\n"),
		`spec.criticality: must be one of Critical, Standard, Sheddable, is "critical"; write Critical`)
}

func TestInferenceModel_InvalidWeightsAreReported(t *testing.T) {
	model := func(targets string) string {
		return object("inference.networking.x-k8s.io/v1alpha2", "InferenceModel",
			"spec: {modelName: m, poolRef: {name: llama}, targetModels: ["+targets+"]}\n")
	}
	invalid(t, store.InferenceModels, model("{name: a, weight: 0}"),
		"spec.targetModels[0].weight: must be at least 1, is 0; write an integer from 1 to 1000000")
	invalid(t, store.InferenceModels, model("{name: a, weight: 1}, {name: b, weight: -5}"),
		"spec.targetModels[1].weight: must be at least 1, is -5; write an integer from 1 to 1000000")
	invalid(t, store.InferenceModels, model("{name: a, weight: 1}, {name: b}"),
		"spec.targetModels: weights must be set for all targetModels, or for none")
}

func TestInferenceModelRewrite_BothGroupsAreReadAndInvalidWeightsReported(t *testing.T) {
	for _, group := range []string{"llm-d.ai", "inference.networking.x-k8s.io"} {
		rewrite := func(weight string) string {
			return object(group+"/v1alpha2", "InferenceModelRewrite",
				"spec: {poolRef: {name: llama}, rules: [{matches: [{model: {value: a}}], targets: [{modelRewrite: "+
					"b, weight: "+weight+"}]}]}\n")
		}
		if rw := valid(t, store.InferenceModelRewrites,
			rewrite("1")); rw.Spec.Rules[0].Matches[0].Model.Type != "Exact" ||
			rw.Spec.PoolRef.Kind != "InferencePool" {
			t.Errorf("%s: got %+v, want the defaults Exact and InferencePool", group, rw.Spec)
		}
		invalid(t, store.InferenceModelRewrites, rewrite("0"),
			"spec.rules[0].targets[0].weight: must be at least 1, is 0; write an integer from 1 to 1000000")
		if o := valid(t, store.InferenceObjectives,
			object(group+"/v1alpha2", "InferenceObjective",
				"spec: {priority: -1, poolRef: {name: llama}}\n")); *o.Spec.Priority != -1 {
			t.Errorf("%s: got %+v, want priority -1", group, o.Spec)
		}
	}
}

func TestPoolPolicy_InvalidRangeIsReported(t *testing.T) {
	invalid(t, store.PoolPolicies,
		object("penstock.dev/v1alpha1", "PoolPolicy",
			"spec: {targetRef: {name: llama}, remote: {podCIDRs: [10.244.0.0]}}\n"),
		`spec.remote.podCIDRs[0]: must be a CIDR range, is "10.244.0.0"`)
}

func TestPoolPolicy_MalformedSeriesIsReported(t *testing.T) {
	policy := func(field, series string) string {
		return object("penstock.dev/v1alpha1", "PoolPolicy",
			"spec: {targetRef: {name: llama}, picker: {metrics: {"+field+": '"+series+"'}}}\n")
	}
	for _, field := range []string{"queue", "running", "kvCache"} {
		for _, series := range []string{"a{b", "q{a=b", `q{a="b}`, `q{a="b"`, "q{a}", "q{a=b}x", "q{a=b c=d,}}",
			"q{=b}", "{a=b}", "q r", "q{a!=b}", `q{a=~"b"}`, `q{a="b,c"}`, "q{a=b,,c=d}"} {
			invalid(t, store.PoolPolicies, policy(field, series),
				"PoolPolicy default/x spec.picker.metrics."+field+": has an invalid format: "+strconv.Quote(series)+
					"; write a series as NAME, or as NAME{LABEL=VALUE,LABEL=VALUE}, such as requests{state=waiting}")
		}
	}
	for _, series := range []string{"", "vllm:num_requests_waiting", "a.b-c", "q{}", "q{ }", "q{a=b}", `q {a="b"}`,
		`q{ a = b , c="d}{" , }`, "q{a=,b=c d}", `q{a=""}`} {
		valid(t, store.PoolPolicies, policy("queue", series))
	}
}

func TestPoolPolicy_AffinityWithoutAPickIsReported(t *testing.T) {
	policy := func(selection string) string {
		return object("penstock.dev/v1alpha1", "PoolPolicy",
			"spec: {targetRef: {kind: InferencePoolImport, name: chat}, selection: "+selection+"}\n")
	}
	for selection, finding := range map[string]string{
		"{affinity: Session}": "affinity is for policies LeastLoad and Latency: add policy, or " +
			"remove affinity",
		"{policy: Priority, affinity: Session}": "affinity is for policies LeastLoad and Latency: add policy, or " +
			"remove affinity",
		"{policy: Latency, affinity: Prefix}": "affinity: Prefix is for policy LeastLoad: write Session or None, " +
			"or remove affinity",
		"{policy: LeastLoad, affinity: sessions}": "spec.selection.affinity: must be one of",
	} {
		invalid(t, store.PoolPolicies, policy(selection), finding)
	}
	for _, selection := range []string{"{policy: Latency, affinity: Session}", "{policy: LeastLoad, affinity: Session}",
		"{policy: Latency, affinity: None}", "{policy: LeastLoad, affinity: Prefix}"} {
		valid(t, store.PoolPolicies, policy(selection))
	}
}

func TestModelServers_AddressMayBeHostNameOrIP(t *testing.T) {
	m := valid(t, store.ModelServers,
		object("penstock.dev/v1alpha1", "ModelServers",
			"spec: {servers: [{address: gpu.example.com}, {address: 'fd00::1'}]}\n"))
	if len(m.Spec.Servers) != 2 {
		t.Errorf("servers %+v, want 2 of them", m.Spec.Servers)
	}
	invalid(t, store.ModelServers,
		object("penstock.dev/v1alpha1", "ModelServers", "spec: {servers: [{address: 10.0.0.256}]}\n"),
		"spec.servers[0].address: must be an IP address or a host name")
}

func TestEnvoyFleet_MemoryLimitTooSmallIsReported(t *testing.T) {
	invalid(t, store.EnvoyFleets,
		object("penstock.dev/v1alpha1", "EnvoyFleet", "spec: {resources: {limits: {memory: 1Mi}}}\n"), "spec.resources")
}

func TestPod_StatusIsKept(t *testing.T) {
	p := valid(t, store.Pods, object("v1", "Pod", "status: {podIP: 10.0.0.1}\n"))
	if p.Status.PodIP != "10.0.0.1" {
		t.Errorf(`status %+v, want PodIP "10.0.0.1"`, p.Status)
	}
	invalid(t, store.Pods, object("v1", "Pod", "status: {podIP: pod-1}\n"),
		`status.podIP: must be an IP address, is "pod-1"`)
}

func TestService_UnknownFieldIsReported(t *testing.T) {
	invalid(t, store.Services, object("v1", "Service", "spec: {ports: [{port: 80, targetport: 8080}]}\n"),
		"spec.ports[0].targetport: is not a known field; did you mean targetPort?")
}

func TestEndpointSlice_InvalidAddressIsReported(t *testing.T) {
	invalid(t, store.EndpointSlices,
		object("discovery.k8s.io/v1", "EndpointSlice", "addressType: IPv4\nendpoints: [{addresses: [pod-1]}]\n"),
		`endpoints[0].addresses[0]: must be an IP address, is "pod-1"`)
}

func TestConfigMap_ValueMustBeString(t *testing.T) {
	invalid(t, store.ConfigMaps, object("v1", "ConfigMap", "data: {ca: 7}\n"),
		"data.ca: must be a string, is a number; put the value in quotes")
}

func TestNamespace_LabelsAreKept(t *testing.T) {
	n := valid(t, store.Namespaces, "apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {team: a}}\n")
	if n.Labels["team"] != "a" {
		t.Errorf("labels %v, want team a", n.Labels)
	}
}

// An address with a zone is a finding, because Envoy rejects it.
func TestAddress_WithAZoneIsAFinding(t *testing.T) {
	const zoned = `"fd00::1%eth0"`
	invalid(t, store.Pods, object("v1", "Pod", "status: {podIP: "+zoned+"}\n"),
		"status.podIP: must be an IP address without a zone")
	invalid(t, store.ModelServers,
		object("penstock.dev/v1alpha1", "ModelServers", "spec: {servers: [{address: "+zoned+"}]}\n"),
		"spec.servers[0].address")
	invalid(t, store.EndpointSlices,
		object("discovery.k8s.io/v1", "EndpointSlice", "addressType: IPv6\nendpoints: [{addresses: ["+zoned+"]}]\n"),
		"endpoints[0].addresses[0]: must be an IP address without a zone")
	invalid(t, store.InferencePoolImports, object("inference.networking.x-k8s.io/v1alpha1", "InferencePoolImport",
		"status: {clusters: [{name: east, routingMode: EndpointMode, targetPortNumber: 8000, endpoints: [{address: "+
			zoned+"}], "+
			"endpointPicker: {service: [{addresses: [192.0.2.9], ports: [{number: 9002}]}]}}]}\n"),
		"status.clusters[0].endpoints[0].address: must be an IP address without a zone")
}

func TestModelRegistry_MistakesAreReported(t *testing.T) {
	registry := func(spec string) string {
		return object("penstock.dev/v1alpha1", "ModelRegistry", "spec: "+spec+"\n")
	}
	valid(t, store.ModelRegistries, registry("{type: hugging-face, credentials: {secretRef: {name: hf}}}"))
	valid(t, store.ModelRegistries, registry("{type: hugging-face, url: 'https://mirror.example/hf'}"))
	valid(t, store.ModelRegistries, registry("{type: file, path: /models}"))
	for spec, text := range map[string]string{
		"{type: file}":                        "type file requires path",
		"{type: ftp}":                         "spec.type",
		"{type: hugging-face, path: /models}": "only type file has a path",
		"{type: hugging-face, url: 'https://me:secret@mirror.example'}":     "spec.url",
		"{type: file, path: /models, credentials: {secretRef: {name: hf}}}": "neither url nor credentials",
	} {
		invalid(t, store.ModelRegistries, registry(spec), text)
	}
}

func TestModelDeployment_MistakesAreReported(t *testing.T) {
	deployment := func(model string) string {
		return object("penstock.dev/v1alpha1", "ModelDeployment", "spec: {engine: {name: sim}, model: "+model+"}\n")
	}
	d := valid(t, store.ModelDeployments, deployment("{name: qwen}"))
	if *d.Spec.Replicas != 1 || d.Spec.Model.Task != "text-generation" {
		t.Errorf("defaults: got %v, want 1 replica of task text-generation", d.Spec)
	}
	invalid(t, store.ModelDeployments, deployment("{name: qwen, file: qwen.gguf}"), "spec.model.file")
	invalid(t, store.ModelDeployments, deployment("{name: qwen, version: main}"), "spec.model.version")
	valid(t, store.ModelDeployments, deployment("{name: a/b, registry: hf, version: v1, file: Q4_K_M}"))
	invalid(t, store.ModelDeployments, deployment("{name: --host}"), "spec.model.name")
	invalid(t, store.ModelDeployments, deployment("{name: qwen, task: chat}"), "spec.model.task")
	env := func(text string) string { return deployment("{name: qwen}, env: [{name: A" + text + "}]") }
	invalid(t, store.ModelDeployments, env(", value: b, valueFrom: {secretKeyRef: {name: s, key: k}}"),
		"spec.env[0]: write value or valueFrom, not both")
	valid(t, store.ModelDeployments, env(", valueFrom: {secretKeyRef: {name: s, key: k}}"))
}
