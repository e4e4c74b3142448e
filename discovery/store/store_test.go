package store_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
}

func names(pods []*corev1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestStore_ViewIsConsistent(t *testing.T) {
	s := store.New()
	if _, err := s.Apply(store.Pods.Put(pod("b", map[string]string{"app": "x"})),
		store.Pods.Put(pod("a", map[string]string{"app": "x"}))); err != nil {
		t.Fatal(err)
	}
	before := s.View()
	rev, err := s.Apply(store.Pods.Put(pod("a", map[string]string{"app": "y"})), store.Pods.Delete("default/b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(store.Pods.By(before, store.ByLabel, store.LabelKey("default", "app", "x"))); !slices.Equal(got,
		[]string{"a", "b"}) {
		t.Errorf("the old view changed: %v, want %v", got, []string{"a", "b"})
	}
	after := s.View()
	if got := names(store.Pods.By(after, store.ByLabel, store.LabelKey("default", "app", "y"))); !slices.Equal(got,
		[]string{"a"}) {
		t.Errorf("new view by label: %v, want %v", got, []string{"a"})
	}
	if rev.N != 2 || len(rev.Changes) != 2 {
		t.Fatalf("revision %+v, want 2 with 2 changes", rev)
	}
	for _, want := range []store.IndexKey{{Index: store.ByLabel, Key: "default app=x"},
		{Index: store.ByLabel, Key: "default app=y"}, {Index: store.ByID, Key: "default/a"}, {Index: store.ByAll}} {
		if !slices.Contains(rev.Changes[0].Keys, want) {
			t.Errorf("change lacks an old or new key: no %v in %v", want, rev.Changes[0].Keys)
		}
	}
}

func TestStore_EqualObjectMakesNoRevision(t *testing.T) {
	s := store.New()
	_, _ = s.Apply(store.Pods.Put(pod("a", nil)))
	rev, err := s.Apply(store.Pods.Put(pod("a", nil)), store.Pods.Delete("default/none"))
	if err != nil || rev.N != 1 || len(rev.Changes) != 0 {
		t.Errorf("got %+v, %v; want revision 1 without changes", rev, err)
	}
}

func TestStore_SubscriberReceivesEveryRevision(t *testing.T) {
	s := store.New()
	_, _ = s.Apply(store.Pods.Put(pod("a", nil)), store.Pods.Put(pod("b", nil)))
	sub := s.Subscribe()
	defer sub.Close()
	revs, _, err := sub.Next(t.Context())
	if err != nil || len(revs) != 1 || len(revs[0].Changes) != 2 {
		t.Fatalf("first: got %+v, %v; want one revision of 2 changes", revs, err)
	}
	_, _ = s.Apply(store.Pods.Delete("default/a"))
	_, _ = s.Apply(store.Pods.Delete("default/b"))
	revs, view, err := sub.Next(t.Context())
	if err != nil || len(revs) != 2 || view.Revision() != 3 {
		t.Fatalf("then: got %+v, %v; want 2 revisions, up to 3", revs, err)
	}
}
