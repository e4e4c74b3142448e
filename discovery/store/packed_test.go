package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/discovery/store/storetest"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func apiKey(edit func(*v1alpha1.APIKey)) *v1alpha1.APIKey {
	k := &v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "alice"}}
	edit(k)
	return k
}

// Packing and unpacking an APIKey must not change it. If a field were lost, the key could permit
// other requests.
func TestPacked_ObjectsComeBackAsTheyWere(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	filled, _ := storetest.Filled(store.APIKeys)
	keys := []*v1alpha1.APIKey{filled.(*v1alpha1.APIKey)}
	for _, edit := range []func(*v1alpha1.APIKey){
		func(*v1alpha1.APIKey) {},
		func(k *v1alpha1.APIKey) { k.APIVersion, k.Kind = "penstock.dev/v1alpha1", "APIKey" },
		func(k *v1alpha1.APIKey) { k.Kind = "APIKey" },
		func(k *v1alpha1.APIKey) { k.Spec.Hashes = []string{hash} },
		func(k *v1alpha1.APIKey) { k.Spec.Hashes = []string{hash, strings.Repeat("0", 64)} },
		func(k *v1alpha1.APIKey) { k.Spec.Hashes = []string{hash, strings.ToUpper(hash)} },
		func(k *v1alpha1.APIKey) { k.Spec.Hashes = []string{"abc", hash} },
		func(k *v1alpha1.APIKey) { k.Spec.Hashes = []string{} },
		func(k *v1alpha1.APIKey) { k.Spec.Models, k.Spec.Pools = []string{}, []v1alpha1.KeyPool{} },
		func(k *v1alpha1.APIKey) { k.Spec.Models = []string{"a", "b*"} },
		func(k *v1alpha1.APIKey) { k.Spec.Pools = []v1alpha1.KeyPool{{Name: "p", Namespace: "n"}} },
		func(k *v1alpha1.APIKey) { k.Spec.Expires = &metav1.Time{} },
		func(k *v1alpha1.APIKey) { k.Spec.Expires = new(metav1.NewTime(time.Unix(1, 0))) },
		func(k *v1alpha1.APIKey) { k.Spec.Expires = new(metav1.NewTime(time.Unix(1, 5))) },
		func(k *v1alpha1.APIKey) { k.Spec.Owner, k.Spec.Disabled, k.Spec.Objective = "o", true, "fast" },
		func(k *v1alpha1.APIKey) { k.Labels, k.Spec.Groups = map[string]string{"a": "b"}, []string{"g"} },
		func(k *v1alpha1.APIKey) { k.Labels = map[string]string{} },
		func(k *v1alpha1.APIKey) { k.CreationTimestamp, k.UID = metav1.NewTime(time.Unix(7, 0)), "u" },
		func(k *v1alpha1.APIKey) { k.Name, k.Namespace = "", "" },
		func(k *v1alpha1.APIKey) { k.Annotations = map[string]string{"a": strings.Repeat("x", 1<<16)} },
	} {
		keys = append(keys, apiKey(edit))
	}
	for i, k := range keys {
		if diff := cmp.Diff(k, store.APIKeys.Unpack(store.APIKeys.Pack(k))); diff != "" {
			t.Errorf("key %d: (-want +got):\n%s", i, diff)
		}
	}
}

// A typical APIKey must be packed. Otherwise, a table of keys would need ten times the memory.
func TestPacked_TypicalKeysAreCompact(t *testing.T) {
	k := apiKey(func(k *v1alpha1.APIKey) {
		k.APIVersion, k.Kind = "penstock.dev/v1alpha1", "APIKey"
		k.CreationTimestamp = metav1.NewTime(time.Unix(1700000000, 0))
		k.Spec.Hashes = []string{strings.Repeat("0123456789abcdef", 4)}
		k.Spec.Owner, k.Spec.Groups, k.Spec.Models = "alice@example.com", []string{"staff"}, []string{"llama*"}
	})
	if packed := fmt.Sprint(store.APIKeys.Pack(k)); len(packed) > 250 {
		t.Errorf("its compact form has %d bytes, want at most 250: %q", len(packed), packed)
	}
}

// An empty list in an AccessPolicy permits nothing, but a missing list permits everything. So the
// store must treat the replacement of one by the other as a change.
func TestStore_EmptyListInPlaceOfNoneIsAChange(t *testing.T) {
	s := store.New()
	policy := func(members []string) *v1alpha1.AccessPolicy {
		p := &v1alpha1.AccessPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"}}
		p.Spec.Members = members
		return p
	}
	for i, op := range []store.Op{
		store.APIKeys.Put(apiKey(func(*v1alpha1.APIKey) {})),
		store.APIKeys.Put(apiKey(func(k *v1alpha1.APIKey) { k.Spec.Models = []string{} })),
		store.AccessPolicies.Put(policy(nil)), store.AccessPolicies.Put(policy([]string{})),
	} {
		if rev, err := s.Apply(op); err != nil || rev.N != uint64(i+1) {
			t.Errorf("operation %d: revision %d, error %v; want revision %d", i, rev.N, err, i+1)
		}
	}
	p, _ := store.AccessPolicies.Get(s.View(), "team/p")
	k, _ := store.APIKeys.Get(s.View(), "team/alice")
	if p.Spec.Members == nil || k.Spec.Models == nil {
		t.Errorf("the store has members %v and models %v, want empty lists", p.Spec.Members, k.Spec.Models)
	}
}
