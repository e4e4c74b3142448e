package balancer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func balanced(name string, age int, asked, has string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(time.Unix(int64(age), 0))},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: asked},
	}
	if has != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: has}}
	}
	return s
}

func TestLoadBalancer_ServiceKeepsItsOwnAddress(t *testing.T) {
	within := netip.MustParsePrefix("10.0.0.0/29") // .1 to .7 are usable
	classed := balanced("classed", 1, "", "")
	class := "example.com/other"
	classed.Spec.LoadBalancerClass = &class
	plain := balanced("plain", 1, "", "10.0.0.7") // a former LoadBalancer
	plain.Spec.Type = corev1.ServiceTypeClusterIP
	leaving := balanced("leaving", 1, "", "")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}

	for _, test := range []struct {
		name     string
		services []*corev1.Service
		writes   map[string]string
	}{
		{"new ones get free ones, the oldest first",
			[]*corev1.Service{balanced("b", 2, "", ""), balanced("a", 1, "", ""), balanced("c", 3, "", "10.0.0.1")},
			map[string]string{"a": "10.0.0.2", "b": "10.0.0.3"}},
		{
			"all keep what they have", []*corev1.Service{
				balanced("a", 2, "", "10.0.0.4"), balanced("b", 1, "10.0.0.2", "10.0.0.2"),
			}, nil,
		},
		{"a requested address goes first", []*corev1.Service{
			balanced("a", 1, "", ""), balanced("b", 2, "10.0.0.1", ""),
		},
			map[string]string{"a": "10.0.0.2", "b": "10.0.0.1"}},
		{"an address in use or outside the range stays pending",
			[]*corev1.Service{balanced("a", 1, "", "10.0.0.1"), balanced("b", 2, "10.0.0.1", ""),
				balanced("c", 3, "10.9.9.9", "")}, nil},
		{"a new request moves the Service", []*corev1.Service{balanced("a", 1, "10.0.0.5", "10.0.0.1")},
			map[string]string{"a": "10.0.0.5"}},
		{
			"two Services never share an address",
			[]*corev1.Service{balanced("a", 1, "", "10.0.0.1"), balanced("b", 2, "", "10.0.0.1")},
			map[string]string{"b": "10.0.0.2"},
		},
		{"Services of other classes and deleted Services are ignored", []*corev1.Service{classed, leaving}, nil},
		{"a Service that is no longer a LoadBalancer loses its address", []*corev1.Service{plain},
			map[string]string{"plain": "invalid IP"}},
	} {
		got := map[string]string{}
		for s, addr := range assign(test.services, nil, within) {
			got[s.Name] = addr.String()
		}
		if test.writes == nil {
			test.writes = map[string]string{}
		}
		if d := cmp.Diff(test.writes, got); d != "" {
			t.Errorf("%s: want these addresses (-want +got):\n%s", test.name, d)
		}
	}
}

func TestLoadBalancer_FullRangeLeavesYoungestPending(t *testing.T) {
	within := netip.MustParsePrefix("10.0.0.0/31")
	got := assign([]*corev1.Service{balanced("a", 1, "", ""), balanced("b", 2, "", "")}, nil, within)
	if len(got) != 1 {
		t.Errorf("%v, want 1 of them", got)
	}
}

// A Service keeps its address while the informer's cache lags behind the write: clients may already
// use the address.
func TestLoadBalancer_NewAddressIsStableWhenLowerOneFrees(t *testing.T) {
	within := netip.MustParsePrefix("10.0.0.0/29")
	old, a, b := balanced("old", 1, "", "10.0.0.1"), balanced("a", 2, "", ""), balanced("b", 3, "", "")
	given := addresses{}
	for s, addr := range assign([]*corev1.Service{old, a}, given, within) {
		given[s.UID] = addr
	}
	got := assign([]*corev1.Service{a, b}, given, within) // old was deleted, and the cached a has no address yet
	if len(got) != 1 || got[b].String() != "10.0.0.1" {
		t.Errorf("got %v, want 10.0.0.1 for b alone", got)
	}
	if given.prune([]*corev1.Service{b}); len(given) > 0 {
		t.Errorf("a deleted Service keeps %v, want none", given)
	}
}
