package inference_test

import (
	"strings"
	"testing"
)

func TestInferencePoolImport_ParentsHostnameIsChecked(t *testing.T) {
	const parent = `service: [{addresses: [192.0.2.9], ports: [{number: 80}]}]}`
	for hostnames, want := range map[string]struct{ host, finding string }{
		`{` + parent:                        {"", ""},
		`{hostname: llm.example, ` + parent: {"llm.example", ""},
		`{hostname: llm.example, ` + parent + `, {hostname: llm.example, ` + parent:   {"llm.example", ""},
		`{hostname: llm.example, ` + parent + `, {hostname: other.example, ` + parent: {"llm.example", `status.clusters[0].parents[1].hostname: cluster west: gateway / is not used: it has hostname "other.example", and another one of the cluster has "llm.example"; write the host name`},
		`{hostname: "*.example", ` + parent + `, {hostname: llm.example, ` + parent:   {"llm.example", `parents[0].hostname: cluster west: gateway / is not used: "*.example" is not a host name`},
		`{hostname: "192.0.2.1", ` + parent:                                           {"", `"192.0.2.1" is not a host name`},
		`{hostname: "a:80", ` + parent:                                                {"", `"a:80" is not a host name`},
	} {
		_, imp := imported(t, "\nkind: InferencePoolImport\nmetadata: {name: llm}\nstatus: {clusters: [{name: west, routingMode: ParentMode, parents: ["+hostnames+"]}]}\n")
		if got := imp.Members[0].Hostname; got != want.host {
			t.Errorf("%s: requests are for %q, want %q", hostnames, got, want.host)
		}
		if text := texts(imp.Findings); strings.Contains(text, "hostname") != (want.finding != "") || !strings.Contains(text, want.finding) {
			t.Errorf("%s: %s", hostnames, text)
		}
	}
}
