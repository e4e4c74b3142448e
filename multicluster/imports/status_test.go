package imports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

func TestImportStatus_Conditions(t *testing.T) {
	endpoint := inferenceapi.ImportedCluster{Name: "a", RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		Endpoints: []inferenceapi.ImportedEndpoint{{Address: "10.0.0.1"}}}
	parent := inferenceapi.ImportedCluster{Name: "b", RoutingMode: inferenceapi.ParentMode}
	list := func(s ...Source) []Source { return s }
	for _, c := range []struct {
		what    string
		sources []Source
		want    string
	}{
		{"no cluster", nil, "Accepted=True Accepted, Ready=False NoReadyCluster"},
		{"ready", list(Source{Entry: endpoint, State: registry.Ready}, Source{Entry: parent, State: registry.Ready}),
			"Accepted=True Accepted, Ready=True Ready; a: EPPReady=True Ready, Ready=True Ready; b: " +
				"ParentsReady=True Ready, Ready=True Ready"},
		{"silent", list(Source{Entry: endpoint, State: registry.Stale}),
			"Accepted=True Accepted, Ready=Unknown Stale; a: EPPReady=Unknown Stale, Ready=Unknown Stale"},
		{"gone, and one is ready",
			list(Source{Entry: endpoint, State: registry.Unreachable}, Source{Entry: parent, State: registry.Ready}),
			"Accepted=True Accepted, Ready=True Ready; a: EPPReady=Unknown Unreachable, Ready=Unknown Unreachable; " +
				"b: ParentsReady=True Ready, Ready=True Ready"},
		{"gone, and one drains",
			list(Source{Entry: endpoint, State: registry.Unreachable},
				Source{Entry: parent, Draining: true, State: registry.Ready}),
			"Accepted=True Accepted, Ready=Unknown Stale; a: EPPReady=Unknown Unreachable, Ready=Unknown " +
				"Unreachable; b: ParentsReady=False Draining, Ready=False Draining"},
		{"its picker fails", list(Source{Entry: endpoint, State: registry.Ready, PickerDown: "connection refused"}),
			"Accepted=True Accepted, Ready=Unknown Stale; a: EPPReady=False PickerDown, Ready=Unknown PickerDown"},
		{"the member drains", list(Source{Entry: endpoint, State: registry.Draining}),
			"Accepted=True Accepted, Ready=False NoReadyCluster; a: EPPReady=False Draining, Ready=False Draining"},
		{"left, and drains", list(Source{Entry: endpoint, Draining: true}),
			"Accepted=True Accepted, Ready=False NoReadyCluster; a: EPPReady=False Draining, Ready=False Draining"},
		{"not allowed", list(Source{Entry: endpoint, State: registry.Ready, NotAllowed: "namespace"}),
			"Accepted=True Accepted, Ready=False NoReadyCluster; a weight 0: EPPReady=False NotAllowed, Ready=False " +
				"NotAllowed"},
		{"never read", list(Source{Entry: inferenceapi.ImportedCluster{Name: "c"}, State: registry.Ready}),
			"Accepted=True Accepted, Ready=False NoReadyCluster"},
	} {
		got := StatusOf(c.sources, 7)
		var parts []string
		add := func(what string, n int, text func(i int) string) {
			var list []string
			for i := range n {
				list = append(list, text(i))
			}
			parts = append(parts, what+strings.Join(list, ", "))
		}
		add("", len(got.Conditions), func(i int) string {
			c := got.Conditions[i]
			return fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		})
		for _, cluster := range got.Clusters {
			name := cluster.Name
			if cluster.Weight != nil {
				name += fmt.Sprint(" weight ", *cluster.Weight)
				if len(cluster.Endpoints) > 0 || cluster.TargetPortNumber == 0 {
					t.Errorf("%s: got %+v, want no endpoints, and a target port", c.what, cluster)
				}
			}
			add(name+": ", len(cluster.Conditions), func(i int) string {
				c := cluster.Conditions[i]
				return fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
			})
			if cluster.Conditions[0].ObservedGeneration != 7 || cluster.Conditions[1].ObservedGeneration != 7 {
				t.Errorf("%s: got %+v, want generation 7", c.what, cluster.Conditions)
			}
		}
		if text := strings.Join(parts, "; "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, text, c.want)
		}
		if got.ObservedGeneration != 7 || got.Conditions[0].ObservedGeneration != 7 ||
			got.Conditions[1].ObservedGeneration != 7 {
			t.Errorf("%s: got %+v, want generation 7", c.what, got)
		}
	}
}
