package picker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Without trustHeaders, a client's fairness ID must not become a label: one client could create so
// many values that other clients get none.
func TestUpstreamMetrics_UntrustedFairnessIDIsNoLabel(t *testing.T) {
	for trust, want := range map[bool]string{false: "[llm_d_epp_request_total   0 ]",
		true: "[llm_d_epp_request_total id-0  0  llm_d_epp_request_total id-1  0 ]"} {
		registry := prometheus.NewRegistry()
		p := runPicker(t, Config{Registerer: registry, Protocol: Protocol{Upstream: true}})
		_, address := servePicker(t, p)
		setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, TrustHeaders: trust, Endpoints: specs("10.0.0.1:80")})
		conn := dialPicker(t, address)
		for i, header := range []string{"x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"} {
			stream, _ := call(t, conn)
			exchange(t, stream, headerMessage(nil, header, fmt.Sprint("id-", i)))
		}
		series := slices.DeleteFunc(slices.Sorted(maps.Keys(gathered(t, registry))),
			func(name string) bool { return !strings.HasPrefix(name, "llm_d_epp_request_total ") })
		if fmt.Sprint(series) != want {
			t.Errorf("trusted %v: got %q, want %s", trust, series, want)
		}
	}
}

// Without the body before the pick, the model in the header is the client's own text.
func TestUpstreamMetrics_UntrustedModelIsNoLabel(t *testing.T) {
	for trust, want := range map[bool]string{false: "[llm_d_epp_request_total   0 ]",
		true: "[llm_d_epp_request_total  claimed 0 claimed]"} {
		registry := prometheus.NewRegistry()
		p := runPicker(t, Config{Registerer: registry, Protocol: Protocol{Upstream: true}})
		_, address := servePicker(t, p)
		setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, TrustHeaders: trust, Endpoints: specs("10.0.0.1:80")})
		stream, _ := call(t, dialPicker(t, address))
		exchange(t, stream, headerMessage(nil, modelHeader, "claimed"))
		series := slices.DeleteFunc(slices.Sorted(maps.Keys(gathered(t, registry))),
			func(name string) bool { return !strings.HasPrefix(name, "llm_d_epp_request_total ") })
		if fmt.Sprint(series) != want {
			t.Errorf("trusted %v: got %q, want %s", trust, series, want)
		}
	}
}
