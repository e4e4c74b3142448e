package picker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Without trustHeaders a client's header makes no series: one client could use up the label's values for all.
func TestUpstreamMetrics_UntrustedFairnessIDIsNoLabel(t *testing.T) {
	for trust, want := range map[bool]string{false: "[llm_d_epp_request_total   0 ]", true: "[llm_d_epp_request_total id-0  0  llm_d_epp_request_total id-1  0 ]"} {
		registry := prometheus.NewRegistry()
		p := runPicker(t, Config{Registerer: registry, Protocol: Protocol{Upstream: true}})
		_, address := servePicker(t, p)
		setPools(t, p, Pool{Name: "ns/pool", Default: true, TrustHeaders: trust, Endpoints: specs("10.0.0.1:80")})
		conn := dialPicker(t, address)
		for i, header := range []string{"x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"} {
			stream, _ := call(t, conn)
			exchange(t, stream, headerMessage(nil, header, fmt.Sprint("id-", i)))
		}
		series := slices.DeleteFunc(slices.Sorted(maps.Keys(gathered(t, registry))), func(name string) bool { return !strings.HasPrefix(name, "llm_d_epp_request_total ") })
		if fmt.Sprint(series) != want {
			t.Errorf("trusted %v: %q", trust, series)
		}
	}
}

// The body is read behind the pick, or not at all: the header is the client's own.
func TestUpstreamMetrics_ModelIsNotWhatAClientClaims(t *testing.T) {
	for trusted, want := range map[bool]string{false: "", true: "evil"} {
		p := runPicker(t, Config{})
		_, address := servePicker(t, p)
		setPools(t, p, Pool{Name: "ns/pool", Default: true, TrustHeaders: trusted, Endpoints: specs("10.0.0.1:80")})
		stream, end := call(t, dialPicker(t, address))
		exchange(t, stream, headerMessage(nil, modelHeader, "evil"))
		end()
		if picks := p.Picks(Picks{Last: 1}); len(picks) != 1 || picks[0].Model != want {
			t.Errorf("headers are trusted: %v; the picks are %+v, want model %q", trusted, picks, want)
		}
	}
}
