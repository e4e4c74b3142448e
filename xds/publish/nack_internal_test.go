package publish

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

func TestNACK_ErrorDetailNamesRejectedResources(t *testing.T) {
	// These error details are from the real Envoy.
	for _, c := range []struct {
		text  string
		names []string
		want  []string
	}{
		{"Error adding/updating cluster(s) badext: cluster: didn't find a registered load balancer factory",
			[]string{"good", "badext"}, []string{"badext"}},
		{"Error adding/updating cluster(s) a, b: malformed IP address: x\nmalformed IP address: y",
			[]string{"a", "b", "c"}, []string{"a", "b"}},
		{"Error adding/updating cluster(s) ns/a: b, c: no", []string{"ns/a", "ns/a: b", "c"}, []string{"ns/a: b", "c"}},
		{"Error adding/updating listener(s) inuse: cannot bind '127.0.0.1:22999': Address already in use",
			[]string{"inuse", "in"}, []string{"inuse"}},
		{"goo.gle/debugproto name: \"bad-ct\" connect_timeout {}: Proto constraint validation failed",
			[]string{"bad-ct", "b"}, []string{"bad-ct"}},
		{"goo.gle/debugonly   \nname: \"bad\"\nconnect_timeout {\n}\n: Proto constraint validation failed",
			[]string{"bad", "b"}, []string{"bad"}},
		{"missing ): a(b", []string{"a", "b"}, nil},
		{"Error adding/updating cluster(s) other: of another response", []string{"a"}, nil},
		{"", []string{"a"}, nil},
	} {
		r := &Response{}
		for _, n := range c.names {
			slot := &cache.Slot{Ref: resource.Ref{Type: resource.Cluster, Name: n}}
			r.parts = append(r.parts,
				part{it: &item{slot: slot}, entry: &cache.Entry{Resource: &resource.Resource{Ref: slot.Ref}}})
		}
		if got := rejectedNames(r, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q names %q, want %q", c.text, got, c.want)
		}
	}
}

func TestNACK_ErrorDetailOmitsQuotedResource(t *testing.T) {
	for text, want := range map[string]string{
		"goo.gle/debugstr name: \"a\"\nmany { lines }\n: Proto constraint validation failed " +
			"(ClusterValidationError.X: y)": "Proto constraint validation failed (ClusterValidationError.X: y)",
		"short": "short",
	} {
		if got := shorten(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := shorten(string(make([]byte, 100_000))); len(got) > 2*maxMessage {
		t.Errorf("%d bytes are kept, want at most %d", len(got), 2*maxMessage)
	}
}

func TestBitSet_HoldsItsMembers(t *testing.T) {
	var b bitSet
	for _, id := range []uint32{0, 63, 64, 1000} {
		b.set(id)
	}
	b.clear(63)
	b.clear(99999)
	if got := slices.Collect(b.all); !slices.Equal(got, []uint32{0, 64, 1000}) || b.has(63) || !b.has(64) ||
		b.has(5000) {
		t.Errorf("got %v, want [0 64 1000]", got)
	}
}
