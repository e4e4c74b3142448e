package clusterset

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// An import belongs to the hub that wrote it, in its newest epoch: a leader that was paused, and another hub, do not write it.
func TestHub_OlderLeaderAndAnotherHubAreFenced(t *testing.T) {
	by := func(uid string, epoch uint64) *inferenceapi.InferencePoolImportStatus {
		return &inferenceapi.InferencePoolImportStatus{Controllers: []upstream.ImportController{
			{Name: "example.com/other", Conditions: []metav1.Condition{{Type: conditionHub, Message: "by hub x, epoch 99"}}},
			{Name: HubController, Conditions: []metav1.Condition{{Type: "Accepted"}, {Type: conditionHub, Message: fmt.Sprintf(hubMessage, uid, epoch)}}},
		}}
	}
	for _, c := range []struct {
		what     string
		live     *inferenceapi.InferencePoolImportStatus
		takeOver bool
		fenced   bool
	}{
		{"an import without a hub", &inferenceapi.InferencePoolImportStatus{}, false, false},
		{"an earlier leader's", by("a", 6), false, false},
		{"its own", by("a", 7), false, false},
		{"a later leader's", by("a", 8), false, true},
		{"a later leader's, for one that takes over from other hubs", by("a", 8), true, true},
		{"another hub's", by("b", 1), false, true},
		{"another hub's, for one that takes over", by("b", 100), true, false},
		{"one that a person has damaged", &inferenceapi.InferencePoolImportStatus{Controllers: []upstream.ImportController{{Name: HubController, Conditions: []metav1.Condition{{Type: conditionHub, Message: "by hand"}}}}}, false, false},
	} {
		k := &Kubernetes{cfg: KubernetesConfig{Hub: &HubWriter{UID: "a", Epoch: 7, TakeOver: c.takeOver}}}
		if err := k.fenced(c.live); (err != nil) != c.fenced || err != nil && !errors.Is(err, ErrFenced) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
