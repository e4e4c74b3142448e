package hostname_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/hostname"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// names is a fake DNS server: answers by name. A name without an answer does not exist.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
}

func (n *names) set(name string, ips ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answers == nil {
		n.answers = map[string][]string{}
	}
	n.answers[name] = ips
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ips := n.answers[host]
	if len(ips) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	for _, ip := range ips {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out, nil
}

func servers(name string, addresses ...string) *v1alpha1.ModelServers {
	m := &v1alpha1.ModelServers{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, a := range addresses {
		m.Spec.Servers = append(m.Spec.Servers, v1alpha1.ModelServer{Address: a})
	}
	return m
}

func apply(t *testing.T, s *store.Store, ops ...store.Op) {
	t.Helper()
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
}

func setup(t *testing.T, lookup hostname.Lookup) (*store.Store, *hostname.Resolver) {
	t.Helper()
	s := store.New()
	r, err := hostname.New(hostname.Config{Store: s, Lookup: lookup, Interval: 2 * time.Millisecond, Retry: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func host(s *store.Store, name string) *store.Host {
	h, _ := store.Hosts.Get(s.View(), name)
	return h
}

func TestHostname_EveryAddressIsResolved(t *testing.T) {
	dns := &names{}
	for _, n := range []string{"gpu.example.com", "epp.example.com", "gw.example.com", "svc.example.com"} {
		dns.set(n, "192.0.2.2", "192.0.2.1", "192.0.2.2")
	}
	s, r := setup(t, dns)
	imp := &inferenceapi.InferencePoolImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "llm"}}
	imp.Status.Clusters = []inferenceapi.ImportedCluster{{
		Name:           "a",
		EndpointPicker: &inferenceapi.EndpointPickerImport{Service: []inferenceapi.ServiceImport{{Addresses: []string{"epp.example.com", "192.0.2.9"}}}},
		Parents:        []inferenceapi.ParentImport{{Service: []inferenceapi.ServiceImport{{Addresses: []string{"gw.example.com"}}}}},
	}}
	external := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "svc.example.com"
	apply(t, s, store.ModelServers.Put(servers("m", "GPU.example.com", "192.0.2.7")), store.InferencePoolImports.Put(imp), store.Services.Put(external))
	if err := r.ResolveOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range store.Hosts.All(s.View()) {
		got = append(got, h.Name)
		if !slices.Equal(h.Addresses, []string{"192.0.2.1", "192.0.2.2"}) || h.Error != "" {
			t.Errorf("%s: %v %q", h.Name, h.Addresses, h.Error)
		}
	}
	if want := []string{"epp.example.com", "gpu.example.com", "gw.example.com", "svc.example.com"}; !slices.Equal(got, want) {
		t.Errorf("hosts %v, want %v", got, want)
	}
}

func TestHostname_FailedLookupKeepsAddresses(t *testing.T) {
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	s, r := setup(t, dns)
	apply(t, s, store.ModelServers.Put(servers("m", "gpu", "nowhere")))
	for range 2 {
		if err := r.ResolveOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		dns.set("gpu")
	}
	if h := host(s, "gpu"); h == nil || !slices.Equal(h.Addresses, []string{"192.0.2.1"}) || h.Error != "no such host" {
		t.Errorf("gpu: %+v", h)
	}
	if h := host(s, "nowhere"); h == nil || len(h.Addresses) != 0 || h.Error != "no such host" {
		t.Errorf("nowhere: %+v", h)
	}
}

func TestHostname_FailedLookupAfterRestartKeepsAddresses(t *testing.T) {
	dir := t.TempDir()
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	dns.set("other", "192.0.2.2")
	begin := func() *store.Store {
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: dns, StateDir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, store.ModelServers.Put(servers("m", "gpu", "other")))
		if err := r.ResolveOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	begin()
	dns.set("gpu")
	dns.set("other", "192.0.2.3")
	for range 2 { // restored addresses are persisted again
		s := begin()
		if h := host(s, "gpu"); !slices.Equal(h.Addresses, []string{"192.0.2.1"}) || h.Error != "no such host" {
			t.Errorf("gpu: %v %q", h.Addresses, h.Error)
		}
		if h := host(s, "other"); !slices.Equal(h.Addresses, []string{"192.0.2.3"}) {
			t.Errorf("a name that resolves has old addresses: %v", h.Addresses)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.json"), []byte("{nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := host(begin(), "gpu"); len(h.Addresses) != 0 {
		t.Errorf("from a damaged file: %v", h.Addresses)
	}
}

func TestHostname_NewAddressIsFoundAndUnusedNameIsRemoved(t *testing.T) {
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	s, r := setup(t, dns)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	at := func(ip string) func() bool {
		return func() bool { h := host(s, "gpu"); return h != nil && slices.Equal(h.Addresses, []string{ip}) }
	}
	apply(t, s, store.ModelServers.Put(servers("m", "gpu")))
	poll.Until(t, "the name of a new object is resolved", at("192.0.2.1"))
	dns.set("gpu", "192.0.2.2")
	poll.Until(t, "a new address is noticed", at("192.0.2.2"))
	apply(t, s, store.ModelServers.Put(servers("m", "later")))
	poll.Until(t, "a failed lookup is stored", func() bool { h := host(s, "later"); return h != nil && h.Error != "" })
	dns.set("later", "192.0.2.3")
	poll.Until(t, "a failed lookup is repeated", func() bool { h := host(s, "later"); return h != nil && h.Error == "" })
	apply(t, s, store.ModelServers.Delete("default/m"))
	poll.Until(t, "an unused name is removed", func() bool { return len(store.Hosts.All(s.View())) == 0 })
}

func TestHostname_LocalhostIsOneServer(t *testing.T) {
	s, r := setup(t, nil) // the machine's own resolver
	apply(t, s, store.ModelServers.Put(servers("m", "localhost")))
	if err := r.ResolveOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	h := host(s, "localhost")
	if h == nil || len(h.Addresses) != 1 || !netip.MustParseAddr(h.Addresses[0]).IsLoopback() {
		t.Errorf("localhost: %+v", h)
	}
}

func TestHostname_IPv4IsPreferred(t *testing.T) {
	dns := &names{}
	dns.set("both", "2001:db8::1", "192.0.2.1")
	dns.set("six", "2001:db8::1")
	s, r := setup(t, dns)
	apply(t, s, store.ModelServers.Put(servers("m", "both", "six")))
	if err := r.ResolveOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if h := host(s, "both"); !slices.Equal(h.Addresses, []string{"192.0.2.1"}) {
		t.Errorf("both: %v", h.Addresses)
	}
	if h := host(s, "six"); !slices.Equal(h.Addresses, []string{"2001:db8::1"}) {
		t.Errorf("six: %v", h.Addresses)
	}
}
