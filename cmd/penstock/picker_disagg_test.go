package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// prefillDecode is llm-d's example for prefill/decode disaggregation. Its decider runs prefill for
// every prompt.
const prefillDecode = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
- type: prefix-cache-scorer
- type: queue-scorer
- type: prefill-filter
- type: decode-filter
- type: max-score-picker
- type: disagg-profile-handler
  parameters:
    deciders:
      prefill: always-disagg-pd-decider
- type: always-disagg-pd-decider
schedulingProfiles:
- name: prefill
  plugins:
  - pluginRef: prefill-filter
  - pluginRef: max-score-picker
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 1}
- name: decode
  plugins:
  - pluginRef: decode-filter
  - pluginRef: max-score-picker
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 1}
`

func inRole(role string, addresses ...string) string {
	return strings.Replace(serversYAML(role, addresses...), "app: "+role, "app: chat, llm-d.ai/role: "+role, 1)
}

func lastHeaders(t *testing.T, server string) http.Header {
	t.Helper()
	page, err := readPage(t.Context(), "http://"+server+"/debug/last")
	if err != nil {
		t.Fatal(err)
	}
	var last struct{ Headers http.Header }
	if err := json.Unmarshal([]byte(page), &last); err != nil {
		t.Fatal(err, page)
	}
	return last.Headers
}

func TestStandAlonePicker_NamesThePrefillServer(t *testing.T) {
	t.Parallel()
	prefill, decode := serverNamed(t, "prefill"), serverNamed(t, "decode")
	files := aloneFiles()
	files["servers.yaml"] = inRole("prefill", prefill) + "---\n" + inRole("decode", decode)
	config := filepath.Join(t.TempDir(), "plugins.yaml")
	if err := os.WriteFile(config, []byte(prefillDecode), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startPicker(t, files, "--config-file", config, "--secure-serving=false")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(prefill), portOf(decode)}})
	for _, way := range e.ways() {
		eventually(t, way+" names the server of prefill", func() error {
			got, err := e.chat(way, "x-prefiller-host-port", "10.0.0.1:1", "x-encoder-hosts-ports", "10.0.0.1:1")
			if err != nil || got.header.Get("x-served-by") != "decode" {
				return fmt.Errorf("got %d from %q: %s %w, want decode", got.status, got.header.Get("x-served-by"),
					got.body, err)
			}
			if h := lastHeaders(t, decode); h.Get("x-prefiller-host-port") != prefill ||
				len(h.Values("x-prefiller-host-port")) != 1 || h.Get("x-encoder-hosts-ports") != "" {
				return fmt.Errorf("it got %v, want the prefill server %s once, and no encoder", h, prefill)
			}
			return nil
		})
	}
	if page := p.page(); !strings.Contains(page,
		`llm_d_epp_disagg_decision_total{decision_type="prefill-decode",model_name="llama",plugin_name="disagg-profile-handler",plugin_type="disagg-profile-handler"}`) {
		t.Errorf("metrics: got\n%s\nwant a decision prefill-decode", page)
	}
}
