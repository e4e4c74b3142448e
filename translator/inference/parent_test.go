package inference_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

func TestInferencePoolImport_ParentsHostnameIsChecked(t *testing.T) {
	const parent = `service: [{addresses: [192.0.2.9], ports: [{number: 80}]}]}`
	for hostnames, want := range map[string]struct{ host, finding string }{
		`{` + parent:                        {"", ""},
		`{hostname: llm.example, ` + parent: {"llm.example", ""},
		`{hostname: llm.example, ` + parent + `, {hostname: llm.example, ` + parent: {"llm.example", ""},
		`{hostname: llm.example, ` + parent + `, {hostname: other.example, ` + parent: {
			"llm.example",
			`status.clusters[0].parents[1].hostname: cluster west: gateway / is not used: it has hostname ` +
				`"other.example", and another one of the cluster has "llm.example"; write the host name`,
		},
		`{hostname: "*.example", ` + parent + `, {hostname: llm.example, ` + parent: {
			"llm.example", `parents[0].hostname: cluster west: gateway / is not used: "*.example" is not a host name`,
		},
		`{hostname: "192.0.2.1", ` + parent: {
			"", `"192.0.2.1" is not a host name`,
		},
		`{hostname: "a:80", ` + parent: {
			"", `"a:80" is not a host name`,
		},
	} {
		_, imp := imported(t,
			"\nkind: InferencePoolImport\nmetadata: {name: llm}\nstatus: {clusters: [{name: west, routingMode: "+
				"ParentMode, parents: ["+hostnames+"]}]}\n")
		if got := imp.Members[0].Hostname; got != want.host {
			t.Errorf("%s: requests are for %q, want %q", hostnames, got, want.host)
		}
		if text := texts(imp.Findings); strings.Contains(text, "hostname") != (want.finding != "") ||
			!strings.Contains(text, want.finding) {
			t.Errorf("%s: got findings %s, want %q", hostnames, text, want.finding)
		}
	}
}

// An exporting cluster's gateways get HTTP/2 only if all of their ports have appProtocol
// kubernetes.io/h2c.
func TestInferencePoolImport_ParentsAppProtocolDecides(t *testing.T) {
	const h2c, plain = "appProtocol: kubernetes.io/h2c", "appProtocol: http"
	for _, test := range []struct {
		ports  []string
		speaks model.Protocol
		mixed  bool
	}{
		{[]string{plain}, model.HTTP1, false},
		{[]string{h2c}, model.H2C, false},
		{[]string{h2c, h2c}, model.H2C, false},
		{[]string{h2c, plain}, model.HTTP1, true},
	} {
		var parents []string
		for i, port := range test.ports {
			parents = append(parents,
				fmt.Sprintf("{service: [{addresses: [192.0.2.%d], ports: [{number: 80, %s}]}]}", i+1, port))
		}
		_, imp := imported(t,
			"\nkind: InferencePoolImport\nmetadata: {name: llm}\nstatus: {clusters: [{name: west, routingMode: "+
				"ParentMode, parents: ["+
				strings.Join(parents, ", ")+"]}]}\n")
		const want = "status.clusters[0].parents: cluster west: some of its gateways have appProtocol kubernetes.io/h2c"
		if got := imp.Members[0].Protocol; got != test.speaks ||
			strings.Contains(texts(imp.Findings), want) != test.mixed {
			t.Errorf("%v: got %s, findings:\n%s\nwant %s, mixed: %t",
				test.ports, got, texts(imp.Findings), test.speaks, test.mixed)
		}
	}
}

func TestInferencePoolImport_HostnameIsMissedAtTheGatewayThatAnswers(t *testing.T) {
	v, _ := imported(t, `
kind: InferencePoolImport
metadata: {name: llm}
status:
  clusters:
  - {name: west, routingMode: ParentMode, parents: [{namespace: infra, name: a,
      service: [{addresses: [192.0.2.1], ports: [{number: 80}]}]},
      {peer: true, namespace: infra, name: p, service: [{addresses: [192.0.2.3], ports: [{number: 80}]}]},
      {namespace: infra, name: b, service: [{addresses: [192.0.2.2, 192.0.2.3], ports: [{number: 80}]}]}]}
  - {name: named, routingMode: ParentMode, parents: [{hostname: llm.example,
      service: [{addresses: [192.0.2.1], ports: [{number: 80}]}]}]}
  - {name: broken, routingMode: ParentMode}
  - {name: pods, routingMode: EndpointMode, targetPortNumber: 80,
      endpointPicker: {service: [{addresses: [192.0.2.1], ports: [{number: 80}]}]}}
`)
	hosts := inference.NewClientHosts(v, "default/llm")
	for at, want := range map[string]string{
		"west 192.0.2.1:80":  "status.clusters[0].parents[0].hostname infra/a",
		"west 192.0.2.2:80":  "status.clusters[0].parents[2].hostname infra/b",
		"west 192.0.2.3:80":  "status.clusters[0].parents[2].hostname infra/b",
		"west 192.0.2.2:81":  "status.clusters[0].parents[0].hostname infra/a",
		"named 192.0.2.1:80": "", "broken 192.0.2.1:80": "", "pods 192.0.2.1:80": "", "gone 192.0.2.1:80": "",
	} {
		member, address, _ := strings.Cut(at, " ")
		got, ok := hosts.At(member, netip.MustParseAddrPort(address))
		if ok != (want != "") || ok && got.Field+" "+got.Gateway != want {
			t.Errorf("%s: %v %v, want %s", at, got, ok, want)
		}
	}
	if got, ok := inference.NewClientHosts(v, "default/none").At("west", netip.AddrPort{}); ok {
		t.Errorf("of no import: got %v, want none", got)
	}
}
