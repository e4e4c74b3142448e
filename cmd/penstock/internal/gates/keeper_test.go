package gates_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/translator"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const secret = "a key"

func apiKey(name, hash string, created time.Time) *v1alpha1.APIKey {
	return &v1alpha1.APIKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1alpha1.APIKeySpec{Hashes: []string{hash}},
	}
}

func apply(t *testing.T, world *store.Store, ops ...store.Op) {
	t.Helper()
	if _, err := world.Apply(ops...); err != nil {
		t.Fatal(err)
	}
}

func deliver(k *gates.Keeper, used ...translator.PolicyGateways) {
	change := &delivery.Change{Output: translator.Output{Gates: used}}
	for _, step := range k.Steps() {
		step.Deliver(context.Background(), change)
	}
}

func TestKeeper_TableFollowsKeysAndPolicies(t *testing.T) {
	world := store.New()
	keeper := gates.New(gates.Config{Store: world, Board: status.NewBoard(nil), Now: func() time.Time { return noon }})
	lets := func() bool {
		d, err := keeper.Table().Decide(authz.Request{Policies: []string{"infra/all"},
			Headers: []authz.Header{{Name: "authorization", Value: "Bearer " + secret}}}, noon)
		return err == nil && d.Reason == ""
	}
	disabled := apiKey("alice", authz.HashOf(secret).String(), noon)
	disabled.Spec.Disabled = true
	steps := []struct {
		what   string
		change store.Op
		want   bool
	}{
		{"a key without a policy", store.APIKeys.Put(apiKey("alice", authz.HashOf(secret).String(), noon)), false},
		{"a policy", store.AccessPolicies.Put(&v1alpha1.AccessPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "all"},
			Spec:       v1alpha1.AccessPolicySpec{APIKeys: &v1alpha1.AccessKeys{}}}), true},
		{"a disabled key", store.APIKeys.Put(disabled), false},
	}
	for _, s := range steps {
		apply(t, world, s.change)
		deliver(keeper)
		if got := lets(); got != s.want {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
	}
}

func TestKeeper_ReportsKeysThatCannotBeUsed(t *testing.T) {
	world, board := store.New(), status.NewBoard(nil)
	keeper := gates.New(gates.Config{Store: world, Board: board, Now: func() time.Time { return noon }})
	good, empty := authz.HashOf(secret).String(), authz.Hash(sha256.Sum256(nil)).String()
	for _, c := range []struct {
		hash, want string
	}{
		{empty, "hash of an empty or well-known key"},
		{good, "APIKey old of the namespace has the same hash"},
		{authz.HashOf("another key").String(), ""},
	} {
		apply(t, world, store.APIKeys.Put(apiKey("old", good, noon.Add(-time.Hour))),
			store.APIKeys.Put(apiKey("new", c.hash, noon)))
		deliver(keeper)
		var found []string
		for _, r := range board.List(status.NewWatchSet()) {
			for _, f := range r.Findings {
				found = append(found, f.Problem)
			}
		}
		if got := strings.Join(found, "; "); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("hash %s: got %q, want %q", c.hash, got, c.want)
		}
	}
}

func TestKeeper_ReportsKeysForWhichAnOlderOneCounts(t *testing.T) {
	world, board := store.New(), status.NewBoard(nil)
	keeper := gates.New(gates.Config{Store: world, Board: board, Now: func() time.Time { return noon }})
	hash := authz.HashOf(secret).String()
	young := apiKey("young", hash, noon)
	young.Namespace = "tenant"
	apply(t, world, store.APIKeys.Put(apiKey("old", hash, noon.Add(-time.Hour))), store.APIKeys.Put(young))
	policy := func(name string, namespaces ...string) store.Op {
		return store.AccessPolicies.Put(&v1alpha1.AccessPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name},
			Spec:       v1alpha1.AccessPolicySpec{APIKeys: &v1alpha1.AccessKeys{Namespaces: namespaces}}})
	}
	for _, step := range []struct {
		what, want string
		change     store.Op
	}{
		{"a policy for each", "", policy("b", "tenant")},
		{"a policy for both", "AccessPolicy infra/a also selects APIKey infra/old", policy("a", "infra", "tenant")},
		{"without it", "", store.AccessPolicies.Delete("infra/a")},
	} {
		apply(t, world, step.change)
		deliver(keeper)
		var found []string
		for _, r := range board.List(status.NewWatchSet()) {
			for _, f := range r.Findings {
				found = append(found, r.Owner.Name+": "+f.Problem)
			}
		}
		got := strings.Join(found, "; ")
		if (step.want == "") != (got == "") || step.want != "" && !strings.HasPrefix(got, "young: "+step.want) {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}

func TestKeeper_ReportsPoliciesThatReadNoModels(t *testing.T) {
	world, board := store.New(), status.NewBoard(nil)
	keeper := gates.New(gates.Config{Store: world, Board: board, Now: func() time.Time { return noon }})
	key := apiKey("alice", authz.HashOf(secret).String(), noon)
	key.Spec.Models = []string{"llama"}
	apply(t, world, store.APIKeys.Put(key))
	for i, byModel := range []bool{false, true, false} {
		apply(t, world, store.AccessPolicies.Put(&v1alpha1.AccessPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "all"},
			Spec:       v1alpha1.AccessPolicySpec{APIKeys: &v1alpha1.AccessKeys{}, ByModel: byModel}}))
		deliver(keeper)
		found := 0
		for _, r := range board.List(status.NewWatchSet()) {
			found += len(r.Findings)
		}
		if found > 0 == byModel {
			t.Errorf("step %d: got %d findings, want none: %t", i, found, byModel)
		}
	}
}

func TestKeeper_GatewaysAskAboutPoliciesOfTheirRoutes(t *testing.T) {
	now := noon
	keeper := gates.New(gates.Config{Store: store.New(), Board: status.NewBoard(nil), Drain: time.Minute,
		Now: func() time.Time { return now }})
	deliver(keeper, translator.PolicyGateways{Policy: "infra/all", Gateways: []string{"infra/gw"}})
	deliver(keeper)
	expect := func(what, gateway string, want bool) {
		t.Helper()
		if got := keeper.Gates(gateway, "infra/all"); got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	expect("another update later", "infra/gw", true)
	expect("another Gateway", "tenant/gw", false)
	deliver(keeper, translator.PolicyGateways{Policy: "infra/all"})
	expect("after its last route", "infra/gw", true)
	now = noon.Add(2 * time.Minute)
	expect("after the drain time", "infra/gw", false)
}
