package picker

import "testing"

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
		// Envoy does not have the hop "new" yet.
		{"ns/none", "", "envoy://new/,envoy://b/", "", "envoy://b/ 0"},
		// A gateway that Penstock does not configure keeps its retry policy.
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
