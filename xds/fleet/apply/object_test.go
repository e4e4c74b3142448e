package apply

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/xds/fleet/render"
)

func TestDeployment_StuckReasonIsReported(t *testing.T) {
	for conditions, want := range map[string]string{
		"[]": "",
		"[{type: Available, status: 'False', reason: MinimumReplicasUnavailable}, {type: Progressing, status: " +
			"'True', reason: ReplicaSetUpdated}]": "",
		"[{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: " +
			"timed out}]": "ProgressDeadlineExceeded: timed out",
		"[{type: Progressing, status: 'True'}, {type: ReplicaFailure, status: 'True', reason: FailedCreate, message: " +
			"exceeded quota}]": "FailedCreate: exceeded quota",
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{spec: {replicas: 2}, status: {conditions: "+conditions+"}}"),
			&u.Object); err != nil {
			t.Fatal(err)
		}
		if got := digest("Deployment", u).Stuck; got != want {
			t.Errorf("%s: %q, want %q", conditions, got, want)
		}
	}
}

func TestNetworkPolicy_PortsOfListenersAreRead(t *testing.T) {
	rule := func(ports ...any) any {
		var list []any
		for _, p := range ports {
			list = append(list, map[string]any{"protocol": "TCP", "port": p})
		}
		return map[string]any{"ports": list}
	}
	for _, tt := range []struct {
		ingress []any
		want    []render.Socket
	}{
		{[]any{rule(int64(80), int64(443)), rule(int64(19003))}, []render.Socket{{Number: 80}, {Number: 443}}},
		{[]any{map[string]any{"ports": []any{map[string]any{"protocol": "UDP", "port": int64(53)}}}},
			[]render.Socket{{Number: 53, UDP: true}}},
		{[]any{rule("http")}, nil}, // a user's edit
		{[]any{"?"}, nil},
		{nil, nil},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ingress": tt.ingress}}}
		if got := digest("NetworkPolicy", u).Ports; !slices.Equal(got, tt.want) {
			t.Errorf("%v: ports %v, want %v", tt.ingress, got, tt.want)
		}
	}
}
