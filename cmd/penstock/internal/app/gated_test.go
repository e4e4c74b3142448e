package app

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
)

func TestGated_FollowsThePoliciesOfEachGateway(t *testing.T) {
	world, g := store.New(), gated{}
	put := func(name string, generation int64) store.Op {
		return store.AccessPolicies.Put(&v1alpha1.AccessPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: generation}})
	}
	for _, step := range []struct {
		what string
		op   store.Op
		uses []translator.PolicyGateways
		want []string
		at   string // versions of policies at ns/a
	}{
		{"a policy without routes", put("p", 1), nil, nil, ""},
		{"a policy of two Gateways", put("q", 1),
			[]translator.PolicyGateways{{Policy: "ns/p", Gateways: []string{"ns/a", "ns/b"}}},
			[]string{"ns/a", "ns/b"}, "ns/p 1\n"},
		{"another policy changes", put("q", 2), nil, nil, "ns/p 1\n"},
		{"the policy changes", put("p", 2), nil, []string{"ns/a", "ns/b"}, "ns/p 2\n"},
		{"it leaves one, and another comes", put("q", 3),
			[]translator.PolicyGateways{{Policy: "ns/p", Gateways: []string{"ns/b"}},
				{Policy: "ns/q", Gateways: []string{"ns/a"}}},
			[]string{"ns/a", "ns/a"}, "ns/q 3\n"},
	} {
		rev, err := world.Apply(step.op)
		if err != nil {
			t.Fatal(err)
		}
		got := g.follow(&delivery.Change{View: world.View(), Objects: rev.Changes,
			Output: translator.Output{Gates: step.uses}})
		slices.Sort(got)
		if !slices.Equal(got, step.want) || g.at("ns/a") != step.at {
			t.Errorf("%s: %v and %q, want %v and %q", step.what, got, g.at("ns/a"), step.want, step.at)
		}
	}
}
