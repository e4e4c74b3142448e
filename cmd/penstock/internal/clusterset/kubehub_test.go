package clusterset

import (
	"errors"
	"fmt"
	"strings"
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
			{Name: HubController, Conditions: []metav1.Condition{{Type: "Accepted"}, {Type: conditionHub, Message: fmt.Sprintf(hubMessage, uid, epoch, "east")}}},
		}}
	}
	as := func(member string) *inferenceapi.InferencePoolImportStatus {
		out := by("a", 7)
		message := &out.Controllers[1].Conditions[1].Message
		*message = strings.Replace(*message, "as member east", "as member "+member, 1)
		if member == "" {
			*message = strings.TrimSuffix(*message, ", as member ")
		}
		return out
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
		{"its own as that of another member, in this epoch", as("west"), false, true},
		{"its own as that of a cluster that is no member any more", as("north"), false, false},
		{"its own of an earlier release", as(""), false, false},
		{"a later leader's", by("a", 8), false, true},
		{"a later leader's, for one that takes over from other hubs", by("a", 8), true, true},
		{"another hub's", by("b", 1), false, true},
		{"another hub's, for one that takes over", by("b", 100), true, false},
		{"one that a person has damaged", &inferenceapi.InferencePoolImportStatus{Controllers: []upstream.ImportController{{Name: HubController, Conditions: []metav1.Condition{{Type: conditionHub, Message: "by hand"}}}}}, false, false},
	} {
		k := &Kubernetes{cfg: KubernetesConfig{Hub: &HubWriter{
			UID: "a", Epoch: 7, TakeOver: c.takeOver, Member: "east", IsMember: func(m string) bool { return m != "north" },
		}}}
		if err := k.fenced(c.live); (err != nil) != c.fenced || err != nil && !errors.Is(err, ErrFenced) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
