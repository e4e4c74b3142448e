//go:build lab

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
)

// hostileForms returns exported pools by name that an API server with the CRDs rejects. spec is in
// addition to the pool's selector; problem is a part of the expected report.
func hostileForms() map[string]struct{ spec, problem string } {
	long := strings.Repeat("a", 1<<20)
	picker := "endpointPickerRef: {name: epp, port: {number: 9002}}"
	return map[string]struct{ spec, problem string }{
		"no-port": {"targetPorts: [], " + picker, "EndpointMode needs targetPorts"},
		"nine-ports": {"targetPorts: [" + strings.Repeat("{number: 1}, ", 9) + "], " + picker,
			"targetPorts has 9 elements"},
		"port-0":      {"targetPorts: [{number: 0}], " + picker, "targetPorts[0].number is 0"},
		"port-70000":  {"targetPorts: [{number: 70000}], " + picker, "targetPortNumber is 70000"},
		"appprotocol": {"targetPorts: [{number: 1}], appProtocol: " + long + ", " + picker, "appProtocol is"},
		"failuremode": {
			"targetPorts: [{number: 1}], endpointPickerRef: {name: epp, failureMode: Odd, port: {number: 9002}}",
			`failureMode is "Odd"`,
		},
		"picker-name": {
			"targetPorts: [{number: 1}], endpointPickerRef: {name: " + long[:140<<10] + ", port: {number: 9002}}",
			"endpointPicker.name has 143360 characters",
		},
		"selector": {
			"selector: {matchLabels: {'a b': '" + long[:100] + "'}}, targetPorts: [{number: 1}, {number: -1}], " +
				picker, "targetPorts[1].number is -1",
		},
	}
}

func exportedForm(name, spec string) string {
	return fmt.Sprintf(
		`{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: team, name: %s,
  annotations: {inference.networking.x-k8s.io/export: ClusterSet}}, spec: {%s}}`, name, spec)
}

func balancer(name, address string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: team, name: %s},
  spec: {type: LoadBalancer, ports: [{port: 9002}]}, status: {loadBalancer: {ingress: [{ip: %s}]}}}`, name, address)
}

// forbidden is an administrator's policy: no import may contain the address 198.51.100.66.
const forbidden = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: addresses}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [inference.networking.x-k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE],
    resources: [inferencepoolimports, inferencepoolimports/status]}]},
  validations: [{message: "address 198.51.100.66 is forbidden here", expression: "!has(object.status) || !has(object.status.clusters) ||
    object.status.clusters.all(c, !has(c.endpointPicker) ||
      c.endpointPicker.service.all(s, !has(s.addresses) || !('198.51.100.66' in s.addresses)))"}]}}`

func (s *server) forbidsAddresses(t *testing.T) {
	t.Helper()
	s.create(t, "validatingadmissionpolicies", forbidden)
	s.create(t, "validatingadmissionpolicybindings",
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
  metadata: {name: addresses}, spec: {policyName: addresses, validationActions: [Deny]}}`)
	s.create(t, "inferencepoolimports",
		"{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: InferencePoolImport, metadata: {namespace: team, "+
			"name: probe}}")
	labtest.Until(t, "the policy counts", func(ctx context.Context) error {
		_, err := s.client.Resource(importKind).Namespace("team").Patch(ctx, "probe", types.MergePatchType,
			[]byte(`{"status": {"clusters": [
  {"name": "a", "routingMode": "EndpointMode", "targetPortNumber": 1, "endpointPicker": {"service": [{"addresses": ["198.51.100.66"]}]}}]}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if err == nil {
			return errors.New("it does not")
		}
		return nil
	})
}

// A member whose API server validates nothing exports the same pools as an honest member. The other
// members' API servers must store the honest entries, before and after a change.
func TestHub_HostileMemberTakesNoImportFromOthers(t *testing.T) {
	servers := clusters(t, "east", "west")
	east, west := servers["east"], servers["west"]
	east.namespace(t, "team")
	west.namespace(t, "team")
	west.forbidsAddresses(t)

	evil := kubetest.New(t)
	for _, name := range []string{"kube-system", "team"} {
		evil.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
	}
	forms := hostileForms()
	names := slices.Sorted(maps.Keys(forms))
	evil.Apply(t, "services", balancer("epp", "192.0.2.66"))
	evil.Apply(t, "services", balancer(strings.Repeat("a", 140<<10), "192.0.2.66"))
	evil.Apply(t, "services", balancer("denied-epp", "198.51.100.66"))
	for _, name := range names {
		evil.Apply(t, "inferencepools", exportedForm(name, forms[name].spec))
	}
	evil.Apply(t, "inferencepools",
		exportedForm("denied",
			"targetPorts: [{number: 1}], endpointPickerRef: {name: denied-epp, port: {number: 9002}}"))
	evil.Apply(t, "inferencepools",
		exportedForm("good", "targetPorts: [{number: 1}], endpointPickerRef: {name: epp, port: {number: 9002}}"))
	names = append(names, "denied")
	for i, name := range names {
		east.exported(t, "team", name, fmt.Sprint("192.0.2.", i+1))
	}

	h := newHub(t, servers, setOf("east", "evil", "west"))
	server := *east
	server.rest = evil.Config()
	h.kubeconfig("evil", &server, "hub")
	h.start()
	west.hasImport(t, "team", "good", "import: evil[192.0.2.66] True/Ready")
	for i, name := range names {
		west.hasImport(t, "team", name, fmt.Sprintf("import: east[192.0.2.%d] True/Ready", i+1))
		east.balance(t, "team", name+"-epp", fmt.Sprint("192.0.2.", i+101))
	}
	for i, name := range names {
		west.hasImport(t, "team", name, fmt.Sprintf("import: east[192.0.2.%d] True/Ready", i+101))
		east.hasExported(t, "team", name, "Exported=True/Exported: imported by 2 members")
	}
	exported := func(name string) string {
		return fmt.Sprint(evil.Get("inference.networking.k8s.io", "inferencepools", "team/"+name)["status"])
	}
	for _, name := range names {
		want := forms[name].problem
		if name == "denied" {
			want = "address 198.51.100.66 is forbidden here"
		}
		labtest.Until(t, "the condition of "+name, func(context.Context) error {
			if got := exported(name); !strings.Contains(got, want) || !strings.Contains(got, "NotSupported") {
				return fmt.Errorf("got %.600s, want NotSupported with %s", got, want)
			}
			return nil
		})
	}
	labtest.Until(t, "the page names the member, the object and the field", func(ctx context.Context) error {
		members, err := h.members(ctx)
		if err != nil {
			return err
		}
		text := fmt.Sprint(members.Problems)
		for _, want := range []string{"spec.members[evil]", "InferencePool team/appprotocol: its appProtocol is"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("got %.2000s, want %q", text, want)
			}
		}
		return nil
	})
}
