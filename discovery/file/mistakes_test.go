package file_test

import (
	"fmt"
	"strings"
	"testing"
)

const chatPool = "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: llm}\nspec:\n"

var chatRoute = route("chat", "a.example.com")

func exporters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\n  - {name: c%d, routingMode: ParentMode}", i)
	}
	return b.String()
}

// mistakes has invalid documents, keyed by their mistake, with the full texts of the expected
// findings.
var mistakes = map[string]struct {
	text string
	want []string
}{
	"ports of a picker that no port can be": {
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: " +
			"far}\nstatus:\n  clusters:\n" +
			"  - name: east\n    routingMode: EndpointMode\n    targetPortNumber: 8000\n    endpointPicker:\n      " +
			"service: [{addresses: [192.0.2.1]}]\n" +
			"      health: {port: 0}\n      metrics: {port: 70000}\n",
		[]string{
			"error: x.yaml:11: InferencePoolImport default/far status.clusters[0].endpointPicker.health.port: must " +
				"be at least 1, is 0; write an integer from 1 to 65535",
			"error: x.yaml:12: InferencePoolImport default/far status.clusters[0].endpointPicker.metrics.port: must " +
				"be at most 65535, is 70000; write an integer from 1 to 65535",
		},
	},
	"number that its Go type cannot hold": {
		strings.Replace(chatRoute, "  - backendRefs:", "  - filters:\n    - type: ExternalAuth\n      externalAuth:\n"+
			"        {protocol: HTTP, http: {path: /check}, backendRef: {name: svc, port: 80}, forwardBody: "+
			"{maxSize: 70000}}\n    backendRefs:", 1),
		[]string{
			"error: x.yaml:14: HTTPRoute default/chat spec.rules[0].filters[0].externalAuth.forwardBody.maxSize: " +
				"must be at most 65535, is 70000; write an integer from 0 to 65535",
		},
	},
	"unknown field": {
		strings.Replace(chatRoute, "hostnames:", "hostname:", 1),
		[]string{
			"error: x.yaml:8: HTTPRoute default/chat spec.hostname: is not a known field; did you mean hostnames?",
		},
	},
	"wrong type": {
		strings.Replace(chatRoute, "port: 80", "port: http", 1),
		[]string{
			`error: x.yaml:13: HTTPRoute default/chat spec.rules[0].backendRefs[0].port: must be an integer, is a string; write an integer from 1 to 65535`,
		},
	},
	"text that looks like a number": {
		strings.Replace(chatRoute, "      port: 80", "      port: 80\n    name: 7", 1),
		[]string{
			"error: x.yaml:14: HTTPRoute default/chat spec.rules[0].name: must be a string, is a number; put the " +
				"value in quotes",
		},
	},
	"annotation that looks like a number": {
		strings.Replace(chatRoute, "  name: chat\n", "  name: chat\n  annotations: {example.com/weight: 3}\n", 1),
		[]string{
			"error: x.yaml:5: HTTPRoute default/chat metadata.annotations.example.com/weight: must be a string, is a " +
				"number; put the value in quotes",
		},
	},
	"missing field": {
		strings.Replace(chatRoute, "- name: svc\n      port: 80", "- port: 80", 1),
		[]string{
			"error: x.yaml:12: HTTPRoute default/chat spec.rules[0].backendRefs[0].name: is missing; write a string",
		},
	},
	"CEL rule": {
		strings.Replace(chatRoute, "      port: 80\n", "", 1) +
			"    filters:\n    - type: RequestRedirect\n      requestRedirect: {scheme: https}\n",
		[]string{
			"error: x.yaml:11: HTTPRoute default/chat spec.rules[0]: RequestRedirect filter must not be used " +
				"together with backendRefs",
			"error: x.yaml:12: HTTPRoute default/chat spec.rules[0].backendRefs[0]: Must have port for " +
				"Service reference",
		},
	},
	"enum": {
		strings.Replace(chatRoute, "  - backendRefs:", "  - matches:\n    - method: get\n    backendRefs:", 1),
		[]string{
			`error: x.yaml:12: HTTPRoute default/chat spec.rules[0].matches[0].method: must be one of GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH, is "get"; write GET`,
		},
	},
	"pattern": {
		strings.Replace(chatRoute, "a.example.com", "https://A.example.com", 1) + "    timeouts: {request: 10 sec}\n",
		[]string{
			`error: x.yaml:9: HTTPRoute default/chat spec.hostnames[0]: has an invalid format: "https://A.example.com"; write a host name in lower case, such as chat.example.com or *.example.com, without scheme or port`,
			`error: x.yaml:14: HTTPRoute default/chat spec.rules[0].timeouts.request: has an invalid format: "10 sec"; write a duration such as 30s, 500ms or 1m30s`,
		},
	},
	"mapping instead of list": {
		strings.Replace(chatRoute, "  - name: gw", "    name: gw", 1),
		[]string{
			"error: x.yaml:6: HTTPRoute default/chat spec.parentRefs: must be a list, is a mapping; begin each item " +
				"with a dash",
		},
	},
	"two listeners of one name": {
		"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  listeners:\n  - " +
			"{name: http, port: 80, protocol: HTTP}\n  - {name: http, port: 81, protocol: HTTP}\n",
		[]string{
			`error: x.yaml:7: Gateway default/g spec.listeners[1]: is a duplicate: name "http"; remove it, or give it another value`,
		},
	},
	"more exporting clusters than an import may have": {
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: " +
			"i}\nstatus:\n  clusters:" + exporters(65) + "\n",
		[]string{
			"error: x.yaml:5: InferencePoolImport default/i status.clusters: has more than 64 items; spread them " +
				"over several objects or rules",
		},
	},
	"more remote pickers than a cluster may have": {
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: " +
			"i}\nstatus:\n  clusters:\n  - name: east\n    routingMode: EndpointMode\n    targetPortNumber: 8000\n   " +
			" endpointPicker:\n      service: [" +
			strings.Repeat("{addresses: [192.0.2.1], ports: [{number: 9002}]},", 17) + "]\n",
		[]string{
			"error: x.yaml:10: InferencePoolImport default/i status.clusters[0].endpointPicker.service: has more " +
				"than 16 items; spread them over several objects or rules",
		},
	},
	"not base64": {
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: hello!}\n",
		[]string{
			`error: x.yaml:4: Secret default/s data.a: is not base64; write the value's base64 in data, or its plain text in stringData`,
		},
	},
	"text or number": {
		"apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports:\n  - port: 80\n    targetPort: [1]\n",
		[]string{
			"error: x.yaml:7: Service default/s spec.ports[0].targetPort: must be an integer or a string, is a list; " +
				"write an integer or a string",
		},
	},
	"wrong type and not one of those allowed": {
		"apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: p}\nspec:\n  targetRef: {name: x}\n  " +
			"picker: {strategy: [a]}\n",
		[]string{
			"error: x.yaml:6: PoolPolicy default/p spec.picker.strategy: must be a string, is a list; write load, " +
				"round-robin, random, least-request, tree, chwbl, session or plugins",
		},
	},
	"one of those allowed elsewhere": {
		"apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: p}\nspec:\n  targetRef: {name: x}\n  " +
			"picker: {shadow: chwbl}\n",
		[]string{
			`error: x.yaml:6: PoolPolicy default/p spec.picker.shadow: must be one of load, round-robin, random, least-request, tree, is "chwbl"; write load, round-robin, random, least-request or tree`,
		},
	},
	"null for a list of which the absence permits everything": {
		"apiVersion: penstock.dev/v1alpha1\nkind: APIKey\nmetadata: {name: k}\nspec:\n  hashes: [" +
			strings.Repeat("ab", 32) + "]\n  pools:\n",
		[]string{
			"error: x.yaml:1: APIKey default/k cannot be decoded: spec.pools: null is no list: write [] for none, or " +
				"remove pools for all",
		},
	},
	"null for the end of a key": {
		"apiVersion: penstock.dev/v1alpha1\nkind: APIKey\nmetadata: {name: k}\nspec:\n  hashes: [" +
			strings.Repeat("ab", 32) + "]\n  expires:\n",
		[]string{
			"error: x.yaml:1: APIKey default/k cannot be decoded: spec.expires: null is no time: write one, or " +
				"remove expires if the key never expires",
		},
	},
	"duplicate key": {
		strings.Replace(chatRoute, "spec:", "spec: {}\nspec:", 1),
		[]string{
			"error: x.yaml:6: HTTPRoute default/chat spec: is a duplicate key (first at line 5); keep one of them",
		},
	},
	"syntax": {
		strings.Replace(chatRoute, "  - name: gw", "  - name: \"gw", 1),
		[]string{
			"error: x.yaml:7: is not YAML: found unexpected end of stream; check indentation, quotes and brackets in " +
				"this line and the one above",
		},
	},
	"tab": {
		strings.Replace(chatRoute, "  parentRefs:", "\tparentRefs:", 1),
		[]string{
			"error: x.yaml:6: is not YAML: found character that cannot start any token; indent with spaces, not " +
				"tabs; put values that start with @, ` or % in quotes",
		},
	},
	"mistyped kind": {
		strings.Replace(chatRoute, "HTTPRoute", "HttpRuote", 1),
		[]string{"error: x.yaml:2: HttpRuote chat kind: is unknown: HttpRuote; did you mean HTTPRoute?"},
	},
	"mistyped kind and group of ours": {
		"apiVersion: penstok.io/v1alpha1\nkind: AccesPolicy\nmetadata: {name: p}\n",
		[]string{"error: x.yaml:2: AccesPolicy p kind: is unknown: AccesPolicy; did you mean AccessPolicy?"},
	},
	"unknown kind of ours": {
		"apiVersion: penstock.dev/v1alpha1\nkind: Budget\nmetadata: {name: p}\n",
		[]string{"error: x.yaml:2: Budget p kind: is unknown: Budget; write APIKey, AccessPolicy, ClusterSet, " +
			"Engine, EnvoyFleet, ModelDeployment, ModelRegistry, ModelServers or PoolPolicy"},
	},
	"core version": {
		strings.Replace(chatRoute, "gateway.networking.k8s.io/v1", "v1", 1),
		[]string{`error: x.yaml:1: HTTPRoute default/chat apiVersion: must be gateway.networking.k8s.io/v1 or ` +
			`gateway.networking.k8s.io/v1beta1 for kind HTTPRoute, is "v1"; write gateway.networking.k8s.io/v1`},
	},
	"wrong version": {
		strings.Replace(chatRoute, "io/v1", "io/v1alpha2", 1),
		[]string{
			`error: x.yaml:1: HTTPRoute default/chat apiVersion: must be gateway.networking.k8s.io/v1 or gateway.networking.k8s.io/v1beta1 for kind HTTPRoute, is "gateway.networking.k8s.io/v1alpha2"; write gateway.networking.k8s.io/v1`,
		},
	},
	"kind of another group": {
		"apiVersion: inference.networking.k8s.io/v1\nkind: ModelServers\nmetadata: {name: s}\n",
		[]string{
			`error: x.yaml:1: ModelServers default/s apiVersion: must be penstock.dev/v1alpha1 for kind ModelServers, ` +
				`is "inference.networking.k8s.io/v1"; write penstock.dev/v1alpha1`,
		},
	},
	"no name": {
		strings.Replace(chatRoute, "name: chat", "labels: {}", 1),
		[]string{
			"error: x.yaml:3: metadata.name: is missing; give the object a name of lower-case letters, digits " +
				"and dashes",
		},
	},
	"kinds for later": {
		"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: g}\n---\napiVersion: " +
			"apps/v1\nkind: Deployment\nmetadata: {name: d}\n",
		[]string{
			"info: x.yaml:5: Deployment d is ignored: Penstock does not read kind Deployment of apps/v1",
			"warning: x.yaml:1: ServiceExport g has no effect: kind ServiceExport of multicluster.x-k8s.io/v1beta1 " +
				"is not supported yet",
		},
	},
	"old form, place as written": {
		"apiVersion: inference.networking.x-k8s.io/v1alpha2\nkind: InferencePool\nmetadata: {name: llm}\nspec:\n  " +
			"targetPortNumber: 0\n  selector: {app: x}\n",
		[]string{
			"error: x.yaml:5: InferencePool default/llm spec.targetPortNumber: must be at least 1, is 0; write an " +
				"integer from 1 to 65535",
		},
	},
	"pool without ports": {
		chatPool + "  selector: {matchLabels: {app: x}}\n",
		[]string{"error: x.yaml:4: InferencePool default/llm spec.targetPorts: is missing; write a list"},
	},
	"item of a List": {
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: s}\n  spec:\n    " +
			"ports:\n    - {port: 70000}\n",
		[]string{
			"error: x.yaml:9: Service default/s spec.ports[0].port: must be from 1 to 65535, is 70000; write a port " +
				"number from 1 to 65535",
		},
	},
	"twice in a List": {
		"apiVersion: v1\nkind: List\nkind: List\nitems: []\n",
		[]string{"error: x.yaml:3: kind: is a duplicate key (first at line 2); keep one of them"},
	},
	"built-in kinds": {
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: e}\naddressType: IPv4\nendpoints:\n- " +
			"addresses: [pod-1]\n  condition: {ready: true}\n",
		[]string{
			"error: x.yaml:7: EndpointSlice default/e endpoints[0].condition: is not a known field; did you mean " +
				"conditions?",
		},
	},
	"address": {
		"apiVersion: penstock.dev/v1alpha1\nkind: ModelServers\nmetadata: {name: m}\nspec:\n  servers:\n  - address: " +
			"http://gpu-1:8000\n",
		[]string{
			`error: x.yaml:6: ModelServers default/m spec.servers[0].address: must be an IP address or a host name, is "http://gpu-1:8000"; write 192.0.2.7 or llm.example.com, without scheme or port`,
		},
	},
	"some other YAML": {
		"image: {tag: v1}\n",
		[]string{"info: x.yaml:1: is ignored: it is not a Kubernetes object"},
	},
	"the same twice": {
		chatRoute + "---\n" + chatRoute,
		[]string{"info: x.yaml:15: HTTPRoute default/chat is defined twice, identically at x.yaml:1"},
	},
	"not an object": {
		"just some text\n",
		[]string{"error: x.yaml:1: is not a Kubernetes object; write apiVersion, kind, metadata and spec"},
	},
}

func TestSchema_FindingNamesFieldProblemAndFix(t *testing.T) {
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write("x.yaml", c.text)
			f.load()
			f.expectFindings(c.want...)
		})
	}
}

// The finding about broken YAML must name the line with the mistake, because users look there.
func TestFile_BrokenYAMLIsReportedAtTheMistake(t *testing.T) {
	third := func(text string) string {
		return "# The first.\n" + chatRoute + "---\n" + route("two", "b.example.com") + "---\n" + text
	}
	before := strings.Count(third(""), "\n")
	for name, c := range map[string]struct {
		text, problem string
		line          int // in the third document, from 1
	}{
		"less indentation than the key above": {strings.Replace(chatRoute, "  hostnames:", " hostnames:", 1),
			"did not find expected key", 8},
		"less indentation than the item above": {strings.Replace(chatRoute, "      port: 80", "     port: 80", 1),
			"did not find expected key", 13},
		"no colon": {strings.Replace(chatRoute, "rules:", "rules", 1),
			"could not find expected ':'", 10},
		"a bracket that is not closed": {strings.Replace(chatRoute, "name: chat", "labels: [a, b", 1),
			"did not find expected ',' or ']'", 4},
		"a quote that another line closes": {
			strings.Replace(chatRoute, "name: gw", "name: \"gw", 1) + "    - name: \"x\"\n", "did not find expected", 7,
		},
		"an anchor that does not exist": {strings.Replace(chatRoute, "name: svc", "name: *svc", 1),
			"a value names an unknown anchor", 12},
		"a value that looks like a mapping": {strings.Replace(chatRoute, "name: svc", "name: svc: 1", 1),
			"mapping values are not allowed in this context", 12},
	} {
		f := newFolder(t)
		f.write("x.yaml", third(c.text))
		f.load()
		found := f.findings()
		want := fmt.Sprintf("error: x.yaml:%d: document 3 is not YAML: %s", before+c.line, c.problem)
		if len(found) != 1 || !strings.HasPrefix(found[0], want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(found, "\n"), want)
		}
	}
}

// The search for the broken line of a long document takes bounded time.
func TestFile_LineOfAMistakeIsFoundWithinABound(t *testing.T) {
	f := newFolder(t)
	f.write("x.yaml", "a: 1\nb: \""+strings.Repeat("one line of many\n", 100_000))
	f.load()
	f.expectFindings(
		"error: x.yaml:2: is not YAML: found unexpected end of stream; check indentation, quotes and brackets in " +
			"this line and the one above")
}

func TestFile_NotUTF8IsReported(t *testing.T) {
	f := newFolder(t)
	f.write("x.yaml", "\xff\xfea\x00")
	f.load()
	f.expectFindings("error: x.yaml:1: is not text in UTF-8; save it as UTF-8")
}

func TestSchema_KeyWithoutValueCountsAsAbsent(t *testing.T) {
	f := newFolder(t)
	f.write("x.yaml", route("chat", "a.example.com")+"    filters:\n    matches:\nstatus: {parents: []}\n")
	f.load()
	f.expectFindings()
}

func TestFile_JSONIsRead(t *testing.T) {
	f := newFolder(t)
	f.write("x.json",
		"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Namespace\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n")
	f.load()
	f.expectFindings()
}
