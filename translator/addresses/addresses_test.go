package addresses_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestAddresses_SpecialOnesAreNeverEndpointsInAnyForm(t *testing.T) {
	r := addresses.Ranges{Allowed: addresses.Everything()}
	for _, a := range []string{
		"127.0.0.1", "127.8.9.10", "::1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "fe80::1", "fe80::1%eth0",
		"224.0.0.1", "ff02::1", "255.255.255.255",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", // NAT64
		// Local NAT64 with prefixes of 96, 48, 56 and 64 bits.
		"64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:7f::100:0", "64:ff9b:1:0:a9:fea9:fe00:0",
		"2002:7f00:1::", "2002:a9fe:a9fe::1", // 6to4
	} {
		if got := r.Outside(netip.MustParseAddr(a)); !strings.HasSuffix(got, "which is never allowed") &&
			!strings.Contains(got, "never allowed") {
			t.Errorf("%s: got %q, want that it is never allowed", a, got)
		}
	}
	// Envoy rejects an endpoint with a zone.
	for _, a := range []string{"fd00::1%eth0", "2001:db8::5%1", "::1%lo", "fe80::1%eth0"} {
		owner := addresses.Ranges{Allowed: addresses.Everything(), Loopback: true}
		for _, r := range []addresses.Ranges{r, owner} {
			if got := r.Outside(netip.MustParseAddr(a)); got != "is an address with a zone, which is never allowed" {
				t.Errorf("%s: %q, want %q", a, got, "is an address with a zone, which is never allowed")
			}
		}
	}
	for _, a := range []string{"10.1.2.3", "8.8.8.8", "2001:db8::1", "fd00::1", "64:ff9b::8.8.8.8", "2002:808:808::1",
		"::ffff:10.1.2.3"} {
		if got := r.Outside(netip.MustParseAddr(a)); got != "" {
			t.Errorf("%s: got %q, want it allowed", a, got)
		}
	}
	if got := r.Outside(netip.Addr{}); got == "" {
		t.Error("an invalid address is allowed")
	}
}

func TestAddresses_OnlyAllowedRangesLessDeniedOnes(t *testing.T) {
	r := addresses.Ranges{Allowed: prefixes("203.0.113.0/24", "2001:db8::/32", "64:ff9b:1::/48"),
		Denied: prefixes("203.0.113.128/25", "10.0.0.0/8")}
	for a, want := range map[string]string{
		"203.0.113.5":              "",
		"::ffff:203.0.113.5":       "",
		"64:ff9b::203.0.113.5":     "",
		"2002:cb00:7105::1":        "",
		"2001:db8::5":              "",
		"203.0.113.200":            "is in the denied range 203.0.113.128/25",
		"64:ff9b::203.0.113.200":   "is in the denied range 203.0.113.128/25",
		"64:ff9b:1::203.0.113.5":   "",
		"64:ff9b:1::10.0.0.1":      "is in the denied range 10.0.0.0/8",
		"64:ff9b:1:a00:0:100::":    "is in the denied range 10.0.0.0/8",
		"198.51.100.1":             "is outside the allowed ranges",
		"64:ff9b::198.51.100.1":    "is outside the allowed ranges",
		"2001:db9::1":              "is outside the allowed ranges",
		"127.0.0.1":                "is a loopback address, which is never allowed",
		"64:ff9b::169.254.169.254": "is a link-local address (169.254.169.254), which is never allowed",
	} {
		if got := r.Outside(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %q, want %q", a, got, want)
		}
	}
	none := addresses.Ranges{}
	if got := none.Outside(netip.MustParseAddr("8.8.8.8")); got == "" {
		t.Error("the zero value allows an address")
	}
	owner := addresses.Ranges{Allowed: addresses.Everything(), Loopback: true}
	for a, want := range map[string]bool{"127.0.0.1": true, "::1": true, "169.254.169.254": false, "0.0.0.0": false} {
		if got := owner.Outside(netip.MustParseAddr(a)) == ""; got != want {
			t.Errorf("the owner of a folder names %s: %t, want %t", a, got, want)
		}
	}
}

func TestAddresses_RangesOfMappedAddressesAreThoseOfIPv4(t *testing.T) {
	for text, want := range map[string]string{"10.1.2.3/8": "10.0.0.0/8", "::ffff:10.0.0.0/104": "10.0.0.0/8",
		"2001:db8::1/32": "2001:db8::/32", "::ffff:0:0/90": "", "10.0.0.1": "", "nonsense": ""} {
		p, err := addresses.ParseRange(text)
		if (err == nil) != (want != "") || err == nil && p.String() != want {
			t.Errorf("%s: got %s, %v; want %q", text, p, err, want)
		}
	}
}

func view(t *testing.T, ops ...store.Op) *store.View {
	t.Helper()
	s := store.New()
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	return s.View()
}

func TestAddressPolicy_AbsentAllowsNothing(t *testing.T) {
	if got := addresses.Of(view(t)).Written(netip.MustParseAddr("8.8.8.8")); got == "" {
		t.Error("allowed")
	}
}

func TestAddresses_OtherNamespacesAndPenstockItselfAreNoEndpoints(t *testing.T) {
	policy := &store.AddressPolicy{Allowed: []string{"0.0.0.0/0"}, Denied: []string{"10.96.0.0/12", "10.1.0.0/16"},
		Shared: true, Own: "penstock-system/penstock"}
	policy.Name = store.OwnAddressPolicy
	occupant := func(address string, clusters, endpoints []string) store.Op {
		return store.Occupants.Put(&store.Occupant{ObjectMeta: metav1.ObjectMeta{Name: address}, Clusters: clusters,
			Endpoints: endpoints,
			Lists:     []string{address, address + " 64:ff9b::c000:201"}})
	}
	proxies := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "gw-penstock",
		Labels: map[string]string{
			"gateway.networking.k8s.io/gateway-name": "gw", "app.kubernetes.io/managed-by": "penstock",
		}}}
	p := addresses.Of(view(t, store.AddressPolicies.Put(policy), store.Services.Put(proxies),
		occupant("192.0.2.1", nil, []string{"penstock-system/penstock"}),
		occupant("192.0.2.2", nil, []string{"edge/gw-penstock"}),
		occupant("192.0.2.3", nil, []string{"other/web"}),
		occupant("10.1.0.4", nil, []string{"mine/web", "other/web"}),
		occupant("192.0.2.5", []string{"mine/web"}, nil),
	))
	for address, want := range map[string]struct{ written, sliced string }{
		"192.0.2.1":          {"Penstock's own Service penstock-system/penstock", "Penstock's own Service"},
		"::ffff:192.0.2.1":   {"Penstock's own Service", "Penstock's own Service"},
		"64:ff9b::192.0.2.1": {"Penstock's own Service", "Penstock's own Service"},
		"192.0.2.2":          {"Penstock's own Service edge/gw-penstock", "Penstock's own Service"},
		"192.0.2.3":          {"", "an endpoint of Service other/web, in another namespace"},
		// the address of a pod in the namespace
		"10.1.0.4":        {"is in the denied range 10.1.0.0/16", ""},
		"10.1.0.9":        {"is in the denied range", "is in the denied range"},
		"192.0.2.5":       {"", "belongs to Service mine/web"},
		"198.51.100.1":    {"", ""},
		"169.254.169.254": {"never allowed", "never allowed"},
	} {
		ip := netip.MustParseAddr(address)
		for _, c := range []struct{ got, want string }{
			{p.Written(ip), want.written}, {p.Slice("mine", []netip.Addr{ip}).Outside(ip), want.sliced},
		} {
			if c.want == "" && c.got != "" || !strings.Contains(c.got, c.want) {
				t.Errorf("%s: %q, want %q", address, c.got, c.want)
			}
		}
	}
}

type counting struct {
	store.Reader
	reads []string
}

func (c *counting) Rows(table, index, key string) store.Rows {
	if table == store.Occupants.Kind() {
		c.reads = append(c.reads, index+" "+key)
	}
	return c.Reader.Rows(table, index, key)
}

func TestEndpointSlice_AddressesTakeOneDependency(t *testing.T) {
	policy := &store.AddressPolicy{Shared: true}
	policy.Name = store.OwnAddressPolicy
	r := &counting{Reader: view(t, store.AddressPolicies.Put(policy))}
	list := []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("64:ff9b::198.51.100.3"),
		netip.MustParseAddr("::ffff:198.51.100.1"), netip.MustParseAddr("198.51.100.2")}
	slice := addresses.Of(r).Slice("mine", list)
	for _, ip := range list {
		if why := slice.Outside(ip); why != "" {
			t.Errorf("%s %s, want it allowed", ip, why)
		}
	}
	if want := []string{"addresses 198.51.100.1 198.51.100.2 198.51.100.3 64:ff9b::c633:6403"}; !slices.Equal(r.reads,
		want) {
		t.Errorf("reads of occupants: %q, want %q", r.reads, want)
	}
}

func TestFix_FitsTheReason(t *testing.T) {
	ranges := addresses.Ranges{Allowed: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		Denied: []netip.Prefix{netip.MustParsePrefix("203.0.113.128/25")}}
	for ip, want := range map[string]string{"169.254.169.254": "write another address",
		"203.0.113.200": "--denied-cidrs", "192.0.2.1": "--allowed-cidrs"} {
		if got := addresses.Fix(ranges.Outside(netip.MustParseAddr(ip))); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
}
