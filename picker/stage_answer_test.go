package picker

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/picker/authz"
)

func TestEndpointPicker_RetriesComposeWithTheUsers(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/one"), Spill: []string{"envoy://b/", "envoy://c/"}, Endpoints: specs("10.0.0.1:80")},
		Pool{ID: poolID("ns/two"), Strategy: "round-robin", Fallbacks: 5,
			Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")},
		Pool{ID: poolID("ns/none"), Spill: []string{"envoy://b/"}},
		Pool{ID: poolID("ns/default"), Default: true, Endpoints: specs("10.0.0.9:80")})
	conn := dialPicker(t, address)
	for _, tt := range []struct {
		pool, retries, spill, header string
		want                         string
	}{
		{"ns/one", "", "", "", "10.0.0.1:80 0"},
		{"ns/one", "2", "", "", "10.0.0.1:80,10.0.0.1:80,10.0.0.1:80 2"},
		{"ns/one", "1", "", "2", "10.0.0.1:80,10.0.0.1:80,10.0.0.1:80 2"},
		{"ns/one", "", "envoy://b/,envoy://c/", "", "10.0.0.1:80,envoy://b/,envoy://c/ 2"},
		{"ns/two", "1", "", "", "10.0.0.1:80,10.0.0.2:80,10.0.0.1:80,10.0.0.2:80,10.0.0.1:80 4"},
		{"ns/none", "", "envoy://b/", "", "envoy://b/ 0"},
		{"ns/none", "", "envoy://new/,envoy://b/", "", "envoy://b/ 0"}, // Envoy does not have the first one yet
		// The retry policy of a gateway that Penstock does not configure stays.
		{"", "", "", "", "10.0.0.9:80 "},
		{"", "", "", "2", "10.0.0.9:80 "},
	} {
		var pairs []string
		for key, value := range map[string]string{
			"x-penstock-pool": tt.pool, "x-penstock-retries": tt.retries, "x-penstock-spill": tt.spill,
		} {
			if value != "" {
				pairs = append(pairs, key, value)
			}
		}
		var header []string
		if tt.header != "" {
			header = []string{"x-envoy-max-retries", tt.header}
		}
		stream, cancel := call(t, conn, pairs...)
		list, retries, _ := answered(exchange(t, stream, headerMessage(nil, header...)))
		cancel()
		if got := list + " " + retries; got != tt.want {
			t.Errorf("%+v: %s, want %s", tt, got, tt.want)
		}
	}
}

// A pod must not receive the caller that a gate found; the picker behind a hop reads it.
func TestEndpointPicker_CallerPassesToHopsAlone(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/one"), Spill: []string{"envoy://b/"}, Endpoints: specs("10.0.0.1:80")},
		Pool{ID: poolID("ns/none"), Spill: []string{"envoy://b/"}})
	conn := dialPicker(t, address)
	for _, tt := range []struct {
		what, pool, spill, caller string
		removed                   bool
	}{
		{"a pod and a hop", "ns/one", "envoy://b/", "ns/alice", true},
		{"without a gate", "ns/one", "envoy://b/", "", false},
		{"a hop", "ns/none", "envoy://b/", "ns/alice", false},
		{"a pod", "ns/one", "", "ns/alice", true},
		{"a pod behind a hop, whose route removes it", "ns/one", "last", "ns/alice", false},
	} {
		pairs := []string{"x-penstock-pool", tt.pool}
		if tt.spill == "last" {
			tt.spill, pairs = "", append(pairs, "x-penstock-last", "true")
		}
		if tt.spill != "" {
			pairs = append(pairs, "x-penstock-spill", tt.spill)
		}
		var header []string
		if tt.caller != "" {
			header = []string{authz.CallerHeader, tt.caller}
		}
		stream, cancel := call(t, conn, pairs...)
		got := exchange(t, stream, headerMessage(nil, header...))
		cancel()
		removes := got.GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders()
		if list, _, _ := answered(got); list == "" || slices.Contains(removes, authz.CallerHeader) != tt.removed {
			t.Errorf("%s: picks %q, removes %v", tt.what, list, removes)
		}
	}
}
