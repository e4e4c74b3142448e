package set

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// The age of the name NAME-CLUSTER begins when the hub imports that cluster into the import NAME.
// The InferencePoolImport may be older, and so may an entry that has only a reason.
func TestHub_EntryHasTheTimeSinceWhichItIsImported(t *testing.T) {
	hub := &Kubernetes{cfg: KubernetesConfig{Hub: &HubWriter{UID: "a"}}}
	at := func(hour int) metav1.Time {
		return metav1.NewTime(time.Unix(0, 0).Add(time.Duration(hour) * time.Hour))
	}
	east := inferenceapi.ImportedCluster{Name: "east", RoutingMode: inferenceapi.ParentMode}
	live := &inferenceapi.InferencePoolImportStatus{}
	write := func(hour int, sources ...imports.Source) metav1.Condition {
		t.Helper()
		status := imports.StatusOf(sources, 1)
		*live = hub.wantedStatus(&status, live, at(hour))
		got := meta.FindStatusCondition(live.Clusters[0].Conditions, v1alpha1.ConditionImported)
		if got == nil {
			t.Fatalf("hour %d: want the condition %s, got %+v", hour, v1alpha1.ConditionImported, live.Clusters[0])
		}
		return *got
	}
	hidden := imports.Source{Entry: east, State: registry.Ready, NotAllowed: "not named"}
	if c := write(1, hidden); c.Status != metav1.ConditionFalse {
		t.Errorf("not allowed: got %+v, want False", c)
	}
	if c := write(2, imports.Source{Entry: east, State: registry.Ready}); c.Status != metav1.ConditionTrue ||
		!c.LastTransitionTime.Equal(new(at(2))) {
		t.Errorf("allowed: got %+v, want True since hour 2", c)
	}
	if c := write(3, imports.Source{Entry: east, State: registry.Draining}); c.Status != metav1.ConditionTrue ||
		!c.LastTransitionTime.Equal(new(at(2))) {
		t.Errorf("it drains, and its name is in use: got %+v, want True since hour 2", c)
	}
	write(4, hidden)
	if c := write(5, imports.Source{Entry: east, State: registry.Ready}); !c.LastTransitionTime.Equal(new(at(5))) {
		t.Errorf("allowed again: got %+v, want it since hour 5", c)
	}
	set := &Kubernetes{cfg: KubernetesConfig{}}
	status := imports.StatusOf([]imports.Source{{Entry: east, State: registry.Ready}}, 1)
	if got := set.wantedStatus(&status, live, at(6)); meta.FindStatusCondition(got.Clusters[0].Conditions,
		v1alpha1.ConditionImported) != nil {
		t.Errorf("a member of a set: got %+v, want no condition Imported, as it has Offers", got.Clusters[0].Conditions)
	}
}

// Only the hub that wrote an import, in its newest epoch, may write it again. A paused leader and
// other hubs may not.
func TestHub_OlderLeaderAndAnotherHubAreFenced(t *testing.T) {
	by := func(uid string, epoch uint64) *inferenceapi.InferencePoolImportStatus {
		return &inferenceapi.InferencePoolImportStatus{Controllers: []upstream.ImportController{
			{
				Name: "example.com/other", Conditions: []metav1.Condition{
					{Type: conditionHub, Message: "by hub x, epoch 99"},
				},
			},
			{
				Name: HubController, Conditions: []metav1.Condition{
					{Type: "Accepted"}, {Type: conditionHub, Message: fmt.Sprintf(hubMessage, uid, epoch, "east")},
				},
			},
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
		{"its own under the name of another member, in this epoch", as("west"), false, true},
		{"its own under the name of a former member", as("north"), false, false},
		{"its own of an earlier release", as(""), false, false},
		{"a later leader's", by("a", 8), false, true},
		{"a later leader's, for one that takes over from other hubs", by("a", 8), true, true},
		{"another hub's", by("b", 1), false, true},
		{"another hub's, for one that takes over", by("b", 100), true, false},
		{
			"one that a person has damaged", &inferenceapi.InferencePoolImportStatus{
				Controllers: []upstream.ImportController{
					{Name: HubController, Conditions: []metav1.Condition{{Type: conditionHub, Message: "by hand"}}},
				},
			}, false, false,
		},
	} {
		k := &Kubernetes{cfg: KubernetesConfig{Hub: &HubWriter{
			UID: "a", Epoch: 7, TakeOver: c.takeOver, Member: "east",
			IsMember: func(m string) bool { return m != "north" },
		}}}
		if err := k.fenced(c.live); (err != nil) != c.fenced || err != nil && !errors.Is(err, ErrFenced) {
			t.Errorf("%s: got %v, want it fenced: %t", c.what, err, c.fenced)
		}
	}
}
