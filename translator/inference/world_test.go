package inference_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// world returns a store with YAML documents. Objects without a namespace are in "default".
func world(t *testing.T, documents string) *store.View {
	t.Helper()
	s := store.New()
	ops := []store.Op{store.AddressPolicies.Put(addresses.Unrestricted())}
	for doc := range strings.SplitSeq(documents, "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		ops = append(ops, put(t, head.Kind, doc))
	}
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	return s.View()
}

func put(t *testing.T, kind, doc string) store.Op {
	t.Helper()
	for _, table := range store.Tables() {
		if table.Kind() != kind {
			continue
		}
		obj := table.New()
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if obj.GetNamespace() == "" && table.Namespaced() {
			obj.SetNamespace("default")
		}
		return table.PutObject(obj)
	}
	t.Fatalf("no table for kind %q", kind)
	return store.Op{}
}

type direct struct{}

func (direct) Pool(r store.Reader, key string) (*model.Pool, bool) { return inference.Pool(r, key) }
func (direct) Import(r store.Reader, key string) (*model.Import, bool) {
	return inference.Import(r, key)
}

func (direct) Attached(store.Reader, model.ClusterID) []gatewayapi.RouteGateways { return nil }

func pool(t *testing.T, r store.Reader, key string) *model.Pool {
	t.Helper()
	p, ok := inference.Pool(r, key)
	if !ok {
		t.Fatalf("no pool %s", key)
	}
	return p
}

func texts(findings []report.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

const chatPool = `
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}, {number: 8001}]
`

const bigPool = `
kind: InferencePool
metadata: {name: big}
spec:
  selector: {matchLabels: {app: big}}
  targetPorts: [{number: 8000}]
`

func names[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, id := range list {
		out[i] = id.String()
	}
	slices.Sort(out)
	return out
}

func hopID(t *testing.T, name string) model.HopID {
	t.Helper()
	id, ok := model.ParseHopID(name)
	if !ok {
		t.Fatalf("%q is not the name of a hop", name)
	}
	return id
}
