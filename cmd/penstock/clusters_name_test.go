package main

import (
	"fmt"
	"strings"
	"testing"
)

const propertyYAML = "apiVersion: about.k8s.io/v1alpha1\nkind: ClusterProperty\nmetadata: {name: " +
	"cluster.clusterset.k8s.io}\nspec: {value: %s}\n"

func TestClusterProperty_NamesTheClusterOfAFolder(t *testing.T) {
	t.Parallel()
	set := strings.Replace(clusterSetYAML("east"), "  cluster: east\n", "  region: eu-west-1\n", 1)
	s := up(t, map[string]string{"gateway.yaml": gatewayYAML("gw", freePort(t)), "set.yaml": set}, "--members-listen",
		"127.0.0.1:"+fmt.Sprint(freePort(t)))
	shows := func(what, at string, want ...string) {
		t.Helper()
		eventually(t, what, func() error {
			text := s.penstock(at)
			for _, w := range want {
				if without, not := strings.CutPrefix(w, "!"); strings.Contains(text, without) == not {
					return fmt.Errorf("want %q in:\n%s", w, text)
				}
			}
			return nil
		})
	}
	shows("neither has the name", "status",
		"ClusterSet gpus spec.cluster: this cluster has no name: the field is empty, and there is no ClusterProperty "+
			"cluster.clusterset.k8s.io (about.k8s.io); write the name of this cluster here, or into spec.value of a "+
			"ClusterProperty")
	s.write("property.yaml", fmt.Sprintf(propertyYAML, "east.example"))
	shows("an invalid name", "status",
		`property.yaml:4: ClusterProperty cluster.clusterset.k8s.io spec.value: "east.example" is no DNS label`,
		"write the name of this cluster in its cluster set")
	s.write("property.yaml", fmt.Sprintf(propertyYAML, "east"))
	shows("the property's name", "status", "!spec.cluster", "!spec.value")
	eventually(t, "others join the cluster by the property's name", func() error {
		if text := s.show(); !strings.Contains(text, "name: east\n") {
			return fmt.Errorf("clusters show: got\n%s\nwant name: east", text)
		}
		return nil
	})
	s.write("set.yaml", clusterSetYAML("west"))
	shows("two names", "status",
		`ClusterSet gpus spec.cluster: it is west, and counts: ClusterProperty cluster.clusterset.k8s.io has another name in spec.value, "east"`,
		"spec.cluster: the name of this cluster is east until the process ends; start penstock again")
}
