package translator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator"
)

// An exporting cluster decides how many host names its import has, and each name in use is resolved
// repeatedly. So the number of used names must have a limit.
func TestHostname_NamesOfAnExportingClusterAreBounded(t *testing.T) {
	service := func(prefix string, n int) []inferenceapi.ServiceImport {
		s := inferenceapi.ServiceImport{Ports: []inferenceapi.Port{{Number: 80}}, Addresses: []string{"203.0.113.5"}}
		for i := range n {
			s.Addresses = append(s.Addresses, fmt.Sprintf("%s-%d.example", prefix, i))
		}
		return []inferenceapi.ServiceImport{s}
	}
	for name, c := range map[string]inferenceapi.ImportedCluster{
		"gateways": {Name: "west", RoutingMode: inferenceapi.ParentMode,
			Parents: []inferenceapi.ParentImport{{Service: service("a", 1000)}, {Service: service("b", 1000)}}},
		"pickers": {Name: "west", RoutingMode: inferenceapi.EndpointMode,
			EndpointPicker: &inferenceapi.EndpointPickerImport{Service: service("a", 2000)}},
		"few": {Name: "west", RoutingMode: inferenceapi.ParentMode,
			Parents: []inferenceapi.ParentImport{{Service: service("a", 32)}}},
	} {
		s := store.New()
		if _, err := s.Apply(tenantWorld(t, "203.0.113.5")...); err != nil {
			t.Fatal(err)
		}
		for _, i := range store.InferencePoolImports.All(s.View()) {
			i = deepcopy.Of(i)
			i.Status.Clusters = []inferenceapi.ImportedCluster{c}
			if _, err := s.Apply(store.InferencePoolImports.Put(i)); err != nil {
				t.Fatal(err)
			}
		}
		tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Slices: true,
			Pickers: config().Pickers})
		out := tr.Update(s.View(), store.Everything(s.View()))
		used := 0
		for _, n := range out.Names {
			if strings.HasPrefix(n, "a-") || strings.HasPrefix(n, "b-") {
				used++
			}
		}
		if used != 32 {
			t.Errorf("%s: %d names are looked up, want 32", name, used)
		}
		var text strings.Builder
		for _, r := range out.Reports {
			for _, f := range r.Findings {
				fmt.Fprintln(&text, f)
			}
		}
		want :=
			"cluster west: it has 2000 host names, and 32 are looked up: a-32.example and those after it are not used"
		if got := strings.Contains(text.String(), want); got != (name != "few") {
			t.Errorf("%s: want a finding about the other names: %t, got\n%s", name, name != "few", &text)
		}
	}
}
