package principals

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// members are the hostile members of a cluster set. evil has a pool for each cell of an export;
// each other cell has a member. The honest member good exports default/good, which is served at
// good.test.
type members struct {
	*run
	good   *parties.Honest
	evil   *parties.Publisher
	self   v1alpha1.ClusterSetMember // this cluster's entry for other ClusterSets
	fields map[string]field
	values map[string][]map[string]any // samples by name
	list   []*memberCell
	wanted chan struct{} // closed when this process requests loads
}

// memberCell is a cell and its objects. A cell of an export has a pool of member evil. A cell of a
// request has neither pool nor member, and any other cell has a member.
type memberCell struct {
	cell
	pool string // NAMESPACE/NAME
	own  *parties.Publisher

	begun  atomic.Bool
	done   chan struct{}
	ending error // the stream's error; nil means that all messages were acknowledged
}

// perNamespace is the number of cells' pools in a namespace. The routes of a namespace have a
// budget.
const perNamespace = 10

const goodReply = "the honest member's gateway"

func newMembers(t testing.TB) *members {
	t.Helper()
	m := &members{fields: map[string]field{}, wanted: make(chan struct{}), values: map[string][]map[string]any{}}
	for _, f := range member.fields(t) {
		m.fields[f.path] = f
	}
	m.readValues(t)
	gateway := modelServer(goodReply)
	t.Cleanup(gateway.Close)
	address, _ := gateway.Listener.Addr().(*net.TCPAddr)
	m.good = parties.NewHonest(t, "good", address)
	m.evil = parties.NewPublisher(t, "evil")
	for i, c := range (&run{t: t, p: member}).cells() {
		played := &memberCell{cell: c, done: make(chan struct{})}
		switch root, _ := split(c.field); root {
		case "record", "part":
			played.pool = fmt.Sprintf("evil-%d/c%d", i/perNamespace, i)
		case "request":
		default:
			played.own = parties.NewPublisher(t, fmt.Sprintf("evil-%d", i))
		}
		m.list = append(m.list, played)
	}
	files := map[string]string{"set.yaml": m.set(), "imports.yaml": m.routes()}
	m.run = begin(t, start(t, files, "--members-listen", "127.0.0.1:0"), member)
	return m
}

func (m *members) readValues(t testing.TB) {
	t.Helper()
	paths, err := filepath.Glob("testdata/member/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range strings.Split(string(raw), "\n---\n") {
			var v map[string]any
			if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			kind := fmt.Sprint(v["kind"])
			delete(v, "kind")
			m.values[kind] = append(m.values[kind], v)
		}
	}
}

func (m *members) set() string {
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: set}\n" +
		"spec:\n  cluster: east\n  members:\n"
	add := func(name string, at net.Listener, ca *parties.CA, allow string) {
		bundle := strings.ReplaceAll(strings.TrimSpace(ca.Bundle), "\n", "\n        ")
		text += fmt.Sprintf("  - name: %s\n    allow: {%s}\n    peer:\n      address: %s\n", name, allow, at.Addr()) +
			"      bundle: |\n        " + bundle + "\n"
	}
	add("good", m.good.Listener, m.good.CA, "namespaces: [default], cleartext: true")
	add("evil", m.evil.Listener, m.evil.CA, "namespaces: ["+strings.Join(m.namespaces(), ", ")+"]")
	for _, c := range m.list {
		if c.own != nil {
			add(c.own.Name, c.own.Listener, c.own.CA, "namespaces: [evil]")
		}
	}
	return text
}

func (m *members) namespaces() []string {
	list := []string{"evil"}
	for _, c := range m.list {
		if namespace, _, some := strings.Cut(c.pool, "/"); some {
			list = append(list, namespace)
		}
	}
	return slices.Compact(list)
}

// routes returns routes to the imports, an exported pool, and a policy for which this process
// requests an import's load.
func (m *members) routes() string {
	text := `apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: shared, namespace: shared, annotations: {inference.networking.x-k8s.io/export: ClusterSet}}
spec: {selector: {matchLabels: {app: shared}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: least, namespace: evil}
spec: {targetRef: {kind: InferencePoolImport, name: least}, selection: {policy: LeastLoad}}
---
` + importRoute("default/good") + importRoute("evil/least")
	text += importRoute("evil/endpoint") + importRoute("evil/parent")
	for _, c := range m.list {
		if c.pool != "" {
			text += importRoute(c.pool)
		}
	}
	return text
}

func importRoute(pool string) string {
	namespace, name, _ := strings.Cut(pool, "/")
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  parentRefs: [{name: gw, namespace: infra, sectionName: http}]
  hostnames: [%[2]s.test]
  rules: [{backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %[2]s}]}]
---
`, namespace, name)
}

func (m *members) join() {
	m.t.Helper()
	m.rig.Eventually("it is a member", func() error {
		raw, err := os.ReadFile(filepath.Join(m.rig.dir, "state", "cluster", "member.yaml"))
		if err != nil {
			return err
		}
		var list []v1alpha1.ClusterSetMember
		if err := yaml.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return fmt.Errorf("%d members: %w, want 1", len(list), err)
		}
		m.self = list[0]
		return nil
	})
	m.good.Federation.SetMembers([]federation.Member{
		{Name: m.self.Name, Address: m.self.Peer.Address, Bundle: []byte(m.self.Peer.Bundle)},
	})
	m.rig.Eventually("the honest member's pool is served", func() error { return m.rig.expect("good.test", goodReply) })
}

// bounds are limits of values on the wire. Keys are ends of paths, and the longest matching end
// applies.
var bounds = map[string]*apiextensionsv1.JSONSchemaProps{
	"epoch":                  {Maximum: most(registry.MaxStamp)},
	"sequence":               {Maximum: most(registry.MaxStamp)},
	"parts":                  {Maximum: most(1024)},
	"weight":                 {Maximum: most(registry.MaxWeight)},
	"number":                 {Maximum: most(65535)},
	"port":                   {Maximum: most(65535)},
	"targetPortNumber":       {Maximum: most(65535)},
	"ports[]":                {Maximum: most(65535)},
	"uid":                    {MaxLength: longestOf(128)},
	"reason":                 {MaxLength: longestOf(64)},
	"message":                {MaxLength: longestOf(512)},
	"endpoints":              {MaxItems: longestOf(4096)},
	"part.endpoints":         {MaxItems: longestOf(4096)},
	"parents":                {MaxItems: longestOf(16)},
	"service":                {MaxItems: longestOf(16)},
	"endpointPicker.service": {MaxItems: longestOf(16)},
	"addresses":              {MaxItems: longestOf(64)},
	"ports":                  {MaxItems: longestOf(16)},
	"targetPorts":            {MaxItems: longestOf(8)},
	"podCIDRs":               {MaxItems: longestOf(64)},
	"counted":                {MaxProperties: longestOf(64)},
	"pool":                   {MaxLength: longestOf(317)},
	"region":                 {MaxLength: longestOf(63)},
	"zone":                   {MaxLength: longestOf(63)},
	"blocks":                 {MaxLength: longestOf(43_692)}, // 4,096 blocks, in base64
	"load.rate":              {Maximum: most(1 << 62)},
	"load.least":             {Maximum: most(1 << 62)},
}

func most(n float64) *float64  { return &n }
func longestOf(n int64) *int64 { return &n }

// value returns a value of the kind at the root of a path, with the cell's value. It is a copy of
// the sample that contains the longest part of the path.
func (m *members) value(c cell) (kind, text string) {
	m.t.Helper()
	kind, steps := split(c.field)
	samples := m.values[kind]
	if len(samples) == 0 {
		m.t.Fatalf("no sample of %s", kind)
	}
	best := slices.MaxFunc(samples, func(a, b map[string]any) int { return reach(a, steps) - reach(b, steps) })
	v := copied(best)
	set(v, steps, m.literal(c, current(v, steps)))
	return kind, encoded(v)
}

func copied(v map[string]any) map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal([]byte(encoded(v)), &out) // the value was JSON
	return out
}

func encoded(v any) string {
	raw, _ := json.Marshal(v) // cannot fail: JSON values, numbers and texts
	return string(raw)
}

func (m *members) literal(c cell, now any) any {
	if v, ok := m.others(c); ok {
		return v
	}
	limit, longest := &apiextensionsv1.JSONSchemaProps{}, ""
	for _, end := range slices.Sorted(maps.Keys(bounds)) {
		if strings.HasSuffix("."+c.field, "."+end) && len(end) > len(longest) {
			limit, longest = bounds[end], end
		}
	}
	return literal(m.fields[c.field], c.value, limit, now)
}

func (m *members) others(c cell) (string, bool) {
	another := c.value == anothersName
	switch {
	case c.field == "state.bundle":
		bundle := m.evil.Bundle
		n := (16 << 10) / len(bundle)
		return map[value]string{
			zero: "", maximum: strings.Repeat(bundle, n), overflow: strings.Repeat(bundle, n+1),
			anothersName: m.good.Bundle,
		}[c.value], true
	case !another:
		return "", false
	case c.field == "state.uid":
		return "uid-of-good", true
	case strings.HasSuffix(c.field, "podCIDRs[]"):
		return "127.0.0.0/8", true
	case strings.HasSuffix(c.field, ".pool"):
		return "victim/victim", true
	case strings.HasSuffix(c.field, "entry.name"):
		return "good", true
	}
	return "", false
}
