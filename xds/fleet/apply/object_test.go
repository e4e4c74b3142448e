package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestDeployment_StuckReasonIsReported(t *testing.T) {
	for conditions, want := range map[string]string{
		"[]": "",
		"[{type: Available, status: 'False', reason: MinimumReplicasUnavailable}, {type: Progressing, status: 'True', reason: ReplicaSetUpdated}]": "",
		"[{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: timed out}]":                                             "ProgressDeadlineExceeded: timed out",
		"[{type: Progressing, status: 'True'}, {type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]":             "FailedCreate: exceeded quota",
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{spec: {replicas: 2}, status: {conditions: "+conditions+"}}"), &u.Object); err != nil {
			t.Fatal(err)
		}
		if got := digest("Deployment", u).Stuck; got != want {
			t.Errorf("%s: %q, want %q", conditions, got, want)
		}
	}
}
