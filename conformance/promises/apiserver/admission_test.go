//go:build lab

package apiserver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

const hash = "abababababababababababababababababababababababababababababababab"

// mistakes are objects of Penstock's kinds, which the API server validates by their CRDs. words is
// a part of the expected error; "" means that the object is valid.
var mistakes = []struct{ kind, spec, words string }{
	{"EnvoyFleet", "{}", ""},
	{
		"EnvoyFleet",
		"{replicas: 3, image: envoy, concurrency: 2, resources: {limits: {memory: 1Gi}}, bootstrap: " +
			"{stats_flush_interval: 1s}}", "",
	},
	{
		"EnvoyFleet",
		"{autoscaling: {maxReplicas: 3}, service: {type: LoadBalancer, loadBalancerClass: x/y, " +
			"externalTrafficPolicy: Local}}", "",
	},
	{"EnvoyFleet", "{mode: external, external: {serviceAccounts: [mine], addresses: [edge.example.com]}}", ""},
	{"EnvoyFleet", "{replicas: 3, autoscaling: {maxReplicas: 3}}",
		"replicas and autoscaling exclude each other: remove one of them"},
	{"EnvoyFleet", "{autoscaling: {minReplicas: 4, maxReplicas: 3}}", "minReplicas must be at most maxReplicas"},
	{"EnvoyFleet", "{autoscaling: {}}", "spec.autoscaling.maxReplicas: Required value"},
	{"EnvoyFleet", "{external: {serviceAccounts: [mine]}}",
		"external is for mode: external; set the mode, or remove external"},
	{"EnvoyFleet", "{mode: external, replicas: 3}", "mode: external runs no proxies"},
	{"EnvoyFleet", "{mode: external, bootstrap: {}}", "mode: external runs no proxies"},
	{"EnvoyFleet", "{mode: mine}", `supported values: "managed", "external"`},
	{"EnvoyFleet", "{networkPolicy: {from: [{namespaceSelector: {}}, {ipBlock: {cidr: 192.0.2.0/24}}]}}", ""},
	{"EnvoyFleet", "{networkPolicy: {mode: none, from: [{namespaceSelector: {}}]}}",
		"mode: none creates no NetworkPolicy: remove from"},
	{"EnvoyFleet", "{mode: external, networkPolicy: {}}", "mode: external runs no proxies"},
	{"EnvoyFleet", "{concurrency: 0}", "should be greater than or equal to 1"},
	{"EnvoyFleet", "{service: {type: ExternalName}}", `supported values: "LoadBalancer", "NodePort", "ClusterIP"`},
	{"EnvoyFleet", "{service: {type: NodePort, loadBalancerClass: x/y}}",
		"loadBalancerClass is for type: LoadBalancer; remove one of them"},
	{"EnvoyFleet", "{service: {type: ClusterIP, externalTrafficPolicy: Local}}",
		"externalTrafficPolicy is not for type: ClusterIP"},

	{
		"PoolPolicy",
		"{targetRef: {name: chat}, picker: {strategy: load, full: {queue: 5}}, spill: [{name: other}, {group: " +
			"inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}]}", "",
	},
	{"PoolPolicy", "{targetRef: {}}", "spec.targetRef.name: Required value"},
	{"PoolPolicy", "{targetRef: {kind: Service, name: chat}}",
		`supported values: "InferencePool", "InferencePoolImport"`},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {strategy: fastest}}",
		`supported values: "load", "round-robin", "random", "least-request", "tree", "chwbl", "session", "plugins"`},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {strategy: plugins}}",
		"strategy plugins needs either plugins or configRef: write one of them"},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {strategy: plugins, plugins: {}, configRef: {name: scorers}}}",
		"strategy plugins needs either plugins or configRef: write one of them"},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {configRef: {name: scorers}}}",
		"plugins and configRef are for strategy plugins: write strategy: plugins"},
	{
		"PoolPolicy",
		"{targetRef: {name: chat}, picker: {strategy: plugins, plugins: {scorers: [{type: dyn-prefill-scorer}]}}}",
		`supported values: "queue-scorer"`,
	},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {criticality: Sheddable, shedAfter: 1.5s}}", ""},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {shedAfter: 11m}}", "shedAfter must be 1ms to 10m"},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {strategy: chwbl, body: None}}",
		"strategy chwbl hashes request bodies: remove body"},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {failureMode: Sometimes}}",
		`supported values: "FailOpen", "FailClose"`},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {full: {kvCachePercent: 101}}}",
		"should be less than or equal to 100"},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {metrics: {path: metrics}}}", "should match '^/'"},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {metrics: {maxPageBytes: 8388609}}}",
		"should be less than or equal to 8388608"},

	{"PoolPolicy", "{targetRef: {name: chat}, picker: {metrics: {engine: tgi}}}",
		`supported values: "vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "llamacpp"`},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {kvEvents: {port: 5557, replayPort: 5558}}}", ""},
	{"PoolPolicy", "{targetRef: {name: chat}, picker: {kvEvents: {mode: Listen, port: 5557}}}", "port is of mode Dial"},

	{"APIKey", "{hashes: [" + hash + "], models: [], pools: []}", ""},

	{"ModelDeployment", "{engine: {name: sim}, model: {name: qwen}, env: [{name: EMPTY}]}", ""},
	{"ModelDeployment", "{engine: {name: sim}, model: {name: qwen}, env: [{name: A, value: b, valueFrom: " +
		"{secretKeyRef: {name: s, key: k}}}]}", "write value or valueFrom, not both"},

	{"ModelServers", "{servers: [{address: 10.0.0.1, ports: [8000]}, {address: gpu.example.com}]}", ""},
	{"ModelServers", "{servers: []}", "should have at least 1 items"},
	{"ModelServers", "{servers: [{address: 10.0.0.1, ports: [0]}]}", "should be greater than or equal to 1"},
	{"ModelServers", "{servers: [{ports: [8000]}]}", "spec.servers[0].address: Required value"},
}

func TestCRD_InvalidObjectIsRejectedWithAdvice(t *testing.T) {
	s := start(t)
	s.install(t, "*")
	resources := map[string]string{"EnvoyFleet": "envoyfleets", "PoolPolicy": "poolpolicies",
		"ModelServers": "modelservers", "APIKey": "apikeys", "ModelDeployment": "modeldeployments"}
	for i, m := range mistakes {
		u := &unstructured.Unstructured{}
		text := fmt.Sprintf(
			"apiVersion: penstock.dev/v1alpha1\nkind: %s\nmetadata: {namespace: default, name: m-%d}\nspec: %s\n",
			m.kind, i, m.spec)
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		labtest.Until(t, "the API server's answer", func(context.Context) error {
			_, err := s.of(u, resources[m.kind]).Create(t.Context(), u, metav1.CreateOptions{})
			switch {
			case apierrors.IsNotFound(err): // the API server does not serve the CRD yet
				return err
			case m.words == "" && err != nil:
				t.Errorf("%s %s: got %v, want it valid", m.kind, m.spec, err)
			case m.words != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), m.words)):
				t.Errorf("%s %s: %v; want %q", m.kind, m.spec, err, m.words)
			}
			return nil
		})
	}
}

func TestInferencePoolImport_UnreachableImportIsRejected(t *testing.T) {
	s := start(t)
	s.install(t, "inferencepoolimports")
	s.create(t, "inferencepoolimports",
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {namespace: "+
			"default, name: far}\n")
	imports := s.client.Resource(schema.GroupVersionResource{
		Group: "inference.networking.x-k8s.io", Version: "v1alpha1", Resource: "inferencepoolimports",
	}).Namespace("default")
	for _, c := range []struct{ cluster, words string }{
		{"{name: east, routingMode: EndpointMode, targetPorts: [{number: 8000}], podCIDRs: [10.0.0.0/8]}", ""},
		{"{name: east, routingMode: ParentMode}", ""},
		{"{name: east, routingMode: EndpointMode}", "EndpointMode needs targetPorts (or targetPortNumber)"},
		{"{name: east, routingMode: Guess}", "supported values"},
		{"{name: east, routingMode: ParentMode, weight: -1}", "should be greater than or equal to 0"},
	} {
		u, err := imports.Get(t.Context(), "far", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var cluster map[string]any
		if err := yaml.Unmarshal([]byte(c.cluster), &cluster); err != nil {
			t.Fatal(err)
		}
		u.Object["status"] = map[string]any{"clusters": []any{cluster}}
		_, err = imports.UpdateStatus(t.Context(), u, metav1.UpdateOptions{})
		if c.words == "" && err != nil || c.words != "" &&
			(!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%s: %v; want %q", c.cluster, err, c.words)
		}
	}
}
