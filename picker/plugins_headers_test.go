package picker

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// The document names the headers with a request's session, agent and profile, and the picker reads
// these headers.
func TestPlugins_HeadersOfTheDocumentCount(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := runPicker(t, Config{Registerer: registry, Protocol: Protocol{Upstream: true}})
	_, address := servePicker(t, p)
	conn := dialPicker(t, address)
	pick := func(pairs ...string) string {
		t.Helper()
		stream, _ := call(t, conn)
		list, _, status := answered(exchange(t, stream, headerMessage(nil, pairs...)))
		if status != 0 {
			t.Fatalf("%v: %d, want 0", pairs, status)
		}
		return list
	}
	pool := Pool{ID: poolID("ns/pool"), Default: true, Strategy: "plugins", TrustHeaders: true,
		Endpoints: specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")}
	pool.Plugins = parsed(t,
		"plugins: [{type: session-affinity-filter}, {type: session-id-producer, parameters: {headerName: X-Chat}}, "+
			"{type: agent-identity}, {type: random-picker}]")
	setPools(t, p, pool)
	for i := range 5 {
		chat := fmt.Sprint("chat-", i)
		first := pick("x-chat", chat)
		for range 8 {
			if got := pick("x-chat", chat, "x-claude-code-session-id", "agent-7"); got != first {
				t.Errorf("%s began at %s and went to %s, want one server", chat, first, got)
			}
		}
	}
	if n := gathered(t, registry)["llm_d_epp_request_total agent-7  0 "]; n != 40 {
		t.Errorf("%g requests of the agent, want 40", n)
	}

	pool.Plugins = parsed(t, `
plugins: [{type: prefill-filter}, {type: decode-filter}, {type: header-profile-handler}]
schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}]}, {name: decode, `+
		`plugins: [{pluginRef: decode-filter}]}]`)
	pool.Endpoints = []endpoint.Spec{
		{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Labels: map[string]string{"llm-d.ai/role": "prefill"}},
		{Addr: netip.MustParseAddrPort("10.0.0.2:80"), Labels: map[string]string{"llm-d.ai/role": "decode"}},
	}
	setPools(t, p, pool)
	for profile, want := range map[string]string{"prefill": "10.0.0.1:80", "decode": "10.0.0.2:80", "": "10.0.0.2:80",
		"other": "10.0.0.2:80"} {
		if got := pick("epp-profile", profile); got != want {
			t.Errorf("profile %q: %s, want %s", profile, got, want)
		}
	}
}
