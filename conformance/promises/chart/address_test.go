package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// Without an address, this cluster would publish 0.0.0.0 as its own.
func TestChart_ClusterSetNeedsAnAddressThatOthersReach(t *testing.T) {
	set := func(more map[string]any) map[string]any {
		values := map[string]any{"enabled": true}
		for k, v := range more {
			values[k] = v
		}
		return map[string]any{"clusterSet": values}
	}
	for _, address := range []string{"", "east.example.com", "https://east.example.com:18443", ":18443",
		"2001:db8::1:18443"} {
		out, err := runHelm(t, "template", "penstock", chartDir, "--values",
			written(t, set(map[string]any{"address": address})))
		if err == nil || !strings.Contains(err.Error(),
			"write HOST:PORT at which other clusters reach the Service penstock-members") {
			t.Errorf("address %q: got %v\n%s\nwant an error that HOST:PORT is to be written", address, err, out)
		}
	}
	for want, more := range map[string]map[string]any{
		"--members-address=east.example.com:18443": {"address": "east.example.com:18443"},
		"--members-address=192.0.2.1:443":          {"address": "192.0.2.1:443", "port": 443},
		"--members-address=[2001:db8::1]:18443":    {"address": "[2001:db8::1]:18443"},
		"":                                         {"port": 0},
	} {
		var d appsv1.Deployment
		for _, document := range render(t, set(more)) {
			check(t, document)
			if strings.HasSuffix(document.file, "deployment.yaml") {
				if err := yaml.UnmarshalStrict([]byte(document.text), &d); err != nil {
					t.Fatal(err)
				}
			}
		}
		args := d.Spec.Template.Spec.Containers[0].Args
		if found := slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--members-")
		}); found != (want != "") || found && !slices.Contains(args, want) {
			t.Errorf("%v: arguments %q, want %q", more, args, want)
		}
	}
}
