package hostname_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/hostname"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// names is a fake DNS server with answers by name. A name without an answer does not exist.
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

func setup(t *testing.T, lookup hostname.Lookup) (*store.Store, *hostname.Resolver) {
	t.Helper()
	s := store.New()
	r, err := hostname.New(hostname.Config{Store: s, Lookup: lookup, Interval: 2 * time.Millisecond,
		Retry: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func host(s *store.Store, name string) *store.Host {
	h, _ := store.Hosts.Get(s.View(), name)
	return h
}

func resolve(t *testing.T, r *hostname.Resolver, names ...string) {
	t.Helper()
	if err := r.Resolve(t.Context(), names); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, r *hostname.Resolver, names, gone []string) {
	t.Helper()
	if err := r.Want(names, gone); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, r *hostname.Resolver) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestHostname_FailedLookupKeepsAddresses(t *testing.T) {
	dns := &names{}
	dns.set("gpu", "192.0.2.2", "192.0.2.1", "192.0.2.2")
	s, r := setup(t, dns)
	for range 2 {
		resolve(t, r, "gpu", "nowhere")
		dns.set("gpu")
	}
	if h := host(s, "gpu"); h == nil || !slices.Equal(h.Addresses, []string{"192.0.2.1", "192.0.2.2"}) ||
		h.Error != "no such host" {
		t.Errorf("gpu: got %+v, want 192.0.2.1 and 192.0.2.2, and no such host", h)
	}
	if h := host(s, "nowhere"); h == nil || len(h.Addresses) != 0 || h.Error != "no such host" {
		t.Errorf("nowhere: got %+v, want no address, and no such host", h)
	}
}

func TestHostname_FailedLookupAfterRestartKeepsAddresses(t *testing.T) {
	dir := t.TempDir()
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	dns.set("other", "192.0.2.2")
	begin := func() *store.Store {
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: dns, StateDir: dir,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		resolve(t, r, "gpu", "other")
		return s
	}
	begin()
	dns.set("gpu")
	dns.set("other", "192.0.2.3")
	for range 2 { // the second restart has the persisted addresses, too
		s := begin()
		if h := host(s, "gpu"); !slices.Equal(h.Addresses, []string{"192.0.2.1"}) || h.Error != "no such host" {
			t.Errorf(`gpu: %v %q, want %v and "no such host"`, h.Addresses, h.Error, []string{"192.0.2.1"})
		}
		if h := host(s, "other"); !slices.Equal(h.Addresses, []string{"192.0.2.3"}) {
			t.Errorf("a name that resolves has old addresses: %v, want %v", h.Addresses, []string{"192.0.2.3"})
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.json"), []byte("{nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := host(begin(), "gpu"); len(h.Addresses) != 0 {
		t.Errorf("from a damaged file: %v, want none", h.Addresses)
	}
}

func TestHostname_RestoredAddressesPrecedeTheFirstAnswer(t *testing.T) {
	dir := t.TempDir()
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	dns.set("unused", "192.0.2.9")
	make := func(lookup hostname.Lookup) (*store.Store, *hostname.Resolver) {
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: lookup, StateDir: dir,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s, r
	}
	_, first := make(dns)
	resolve(t, first, "gpu", "unused")
	s, r := make(silent{})
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
	want(t, r, []string{"gpu"}, nil)
	run(t, r)
	// Settle returns at once, because the name has its last addresses.
	if err := r.Settle(t.Context(), time.Hour, time.Hour); err != nil {
		t.Fatal(err)
	}
	if h := host(s, "gpu"); h == nil || !slices.Equal(h.Addresses, []string{"192.0.2.1"}) {
		t.Errorf("gpu: got %+v, want 192.0.2.1", h)
	}
	if h := host(s, "unused"); h != nil {
		t.Errorf("a name that nothing uses has a Host, want none: %+v", h)
	}
}

func TestHostname_NewAddressIsFoundAndUnusedNameIsRemoved(t *testing.T) {
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	dns.set("unused", "192.0.2.1")
	s, r := setup(t, dns)
	run(t, r)
	at := func(ip string) func() bool {
		return func() bool { h := host(s, "gpu"); return h != nil && slices.Equal(h.Addresses, []string{ip}) }
	}
	want(t, r, []string{"gpu"}, nil)
	poll.Until(t, "a used name is resolved", at("192.0.2.1"))
	dns.set("gpu", "192.0.2.2")
	poll.Until(t, "a new address is noticed", at("192.0.2.2"))
	want(t, r, []string{"later"}, nil)
	poll.Until(t, "a failed lookup is stored", func() bool { h := host(s, "later"); return h != nil && h.Error != "" })
	dns.set("later", "192.0.2.3")
	poll.Until(t, "a failed lookup is repeated", func() bool {
		h := host(s, "later")
		return h != nil && h.Error == ""
	})
	want(t, r, nil, []string{"later", "gpu"})
	if n := len(store.Hosts.All(s.View())); n != 0 {
		t.Errorf("%d names are left that nothing uses, want 0", n)
	}
}

// If a name is used again while the DNS server is unreachable, it has its last addresses. This also
// holds if the process restarts before the name is used again.
func TestHostname_NameThatIsUsedAgainHasItsLastAddresses(t *testing.T) {
	dir := t.TempDir()
	dns := &names{}
	dns.set("gpu", "192.0.2.1")
	begin := func(lookup hostname.Lookup) (*store.Store, *hostname.Resolver) {
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: lookup, StateDir: dir, Interval: 2 * time.Millisecond,
			Retry: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s, r
	}
	again := func(s *store.Store, r *hostname.Resolver) {
		t.Helper()
		want(t, r, []string{"gpu"}, nil)
		if h := host(s, "gpu"); h == nil || !slices.Equal(h.Addresses, []string{"192.0.2.1"}) {
			t.Errorf("gpu: got %+v, want 192.0.2.1", h)
		}
		want(t, r, nil, []string{"gpu"})
		if h := host(s, "gpu"); h != nil {
			t.Errorf("a name that nothing uses has a Host, want none: %+v", h)
		}
	}
	t.Run("without", func(t *testing.T) {
		s, r := begin(dns)
		run(t, r)
		want(t, r, []string{"gpu"}, nil)
		poll.Until(t, "a used name is resolved", func() bool { return host(s, "gpu") != nil })
		want(t, r, nil, []string{"gpu"})
		dns.set("gpu")
		again(s, r)
		again(s, r)
	})
	t.Run("with", func(t *testing.T) {
		s, r := begin(silent{})
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		run(t, r)
		if err := r.Settle(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
		again(s, r)
		again(s, r)
	})
}

type silent struct{}

func (silent) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// partly is a DNS server that drops queries for names that begin with "dead". It answers other
// queries after a delay.
type partly struct{ after time.Duration }

func (p partly) LookupNetIP(ctx context.Context, _, name string) ([]netip.Addr, error) {
	if strings.HasPrefix(name, "dead") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-time.After(p.after):
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestHostname_DeadNamesDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: partly{10 * time.Millisecond},
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		run(t, r)
		var dead []string
		for i := range 2000 {
			dead = append(dead, fmt.Sprint("dead", i))
		}
		want(t, r, dead, nil)
		time.Sleep(time.Minute) // all names have failed by then, and are looked up again
		begin := time.Now()
		want(t, r, []string{"alive"}, nil)
		poll.Until(t, "the name has addresses", func() bool { return host(s, "alive") != nil })
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("a name waited %s for others, want at most %s", took, 100*time.Millisecond)
		}
		if h := host(s, "dead7"); h == nil || h.Error != "the DNS server did not answer in time" {
			t.Errorf("a dead name: got %+v, want that the DNS server did not answer in time", h)
		}
	})
}

// A name that exceeds the first timeout is looked up again with the long timeout, before names that
// have failed more often.
func TestHostname_SlowServerGetsASecondTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: partly{2 * time.Second},
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		run(t, r)
		var dead []string
		for i := range 1000 {
			dead = append(dead, fmt.Sprint("dead", i))
		}
		want(t, r, dead, nil)
		time.Sleep(5 * time.Minute)
		want(t, r, []string{"slow"}, nil)
		poll.For(t, "the name has addresses", 10*time.Second, func() bool {
			h := host(s, "slow")
			return h != nil && h.Error == ""
		})
	})
}

func TestHostname_SettleWaitsForAnswersThatArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			lookup hostname.Lookup
			took   time.Duration
		}{{partly{10 * time.Millisecond}, 10 * time.Millisecond}, {silent{}, 25 * time.Millisecond}} {
			r, err := hostname.New(hostname.Config{
				Store: store.New(), Lookup: c.lookup, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			run(t, r)
			want(t, r, []string{"gpu"}, nil)
			begin := time.Now()
			if err := r.Settle(t.Context(), 25*time.Millisecond, 250*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != c.took {
				t.Errorf("%T: %s, want %s", c.lookup, took, c.took)
			}
		}
	})
}

func TestHostname_LocalhostIsOneServer(t *testing.T) {
	s, r := setup(t, nil) // uses the machine's own resolver
	resolve(t, r, "localhost")
	h := host(s, "localhost")
	if h == nil || len(h.Addresses) != 1 || !netip.MustParseAddr(h.Addresses[0]).IsLoopback() {
		t.Errorf("localhost: got %+v, want one loopback address", h)
	}
}

func TestHostname_IPv4IsPreferred(t *testing.T) {
	dns := &names{}
	dns.set("both", "2001:db8::1", "192.0.2.1")
	dns.set("six", "2001:db8::1")
	s, r := setup(t, dns)
	resolve(t, r, "both", "six")
	if h := host(s, "both"); !slices.Equal(h.Addresses, []string{"192.0.2.1"}) {
		t.Errorf("both: %v, want %v", h.Addresses, []string{"192.0.2.1"})
	}
	if h := host(s, "six"); !slices.Equal(h.Addresses, []string{"2001:db8::1"}) {
		t.Errorf("six: %v, want %v", h.Addresses, []string{"2001:db8::1"})
	}
}

func TestHostname_ProcessesHaveOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &names{}, &names{}
		first.set("gpu", "192.0.2.1")
		second.set("gpu", "192.0.2.1")
		_, one := setup(t, first)
		s, two := setup(t, second)
		one.OnChange(func(name string, addresses []string) {
			if err := errors.Join(two.Learn(name, addresses), two.Learn("unused", addresses)); err != nil {
				t.Error(err)
			}
		})
		two.OnChange(func(name string, _ []string) { t.Errorf("%s has changed where nothing was looked up", name) })
		run(t, one)
		run(t, two)
		want(t, one, []string{"gpu", "unused"}, nil)
		want(t, two, []string{"gpu"}, nil)
		time.Sleep(time.Second)
		first.set("gpu", "192.0.2.2")
		second.set("gpu") // the second process's DNS server fails
		time.Sleep(time.Minute)
		if h := host(s, "gpu"); h == nil || !slices.Equal(h.Addresses, []string{"192.0.2.2"}) || h.Error == "" {
			t.Errorf(
				"gpu is %+v where its lookups fail, want the address that the other process has found, and the error",
				h)
		}
		if host(s, "unused") != nil {
			t.Error("a name that is used by the other process alone has addresses")
		}
	})
}
