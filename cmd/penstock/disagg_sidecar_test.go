package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// sidecar stands in for llm-d's routing sidecar (connector nixlv2) in front of a server of decode, of which llm-d-inference-sim has none: it
// has the server of the header read the prompt, for one token, and passes on to its own server where the cache is.
func sidecar(t *testing.T, decode string) string {
	t.Helper()
	post := func(r *http.Request, server string, body map[string]any) (*http.Response, error) {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+server+r.URL.Path, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		out.Header.Set("content-type", "application/json")
		return http.DefaultClient.Do(out)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail := func(err error) { http.Error(w, err.Error(), http.StatusBadGateway) }
		if r.Method == http.MethodGet { // such as the metrics page
			response, err := http.Get("http://" + decode + r.URL.Path)
			if err != nil {
				fail(err)
				return
			}
			defer response.Body.Close()
			_, _ = io.Copy(w, response.Body)
			return
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			fail(err)
			return
		}
		if prefill := r.Header.Get("x-prefiller-host-port"); prefill != "" {
			limit := body["max_tokens"]
			body["max_tokens"], body["kv_transfer_params"] = 1, map[string]any{"do_remote_decode": true, "do_remote_prefill": false}
			response, err := post(r, prefill, body)
			if err != nil {
				fail(err)
				return
			}
			var read struct {
				Params  map[string]any `json:"kv_transfer_params"`
				Choices []struct {
					Reason string `json:"finish_reason"`
				} `json:"choices"`
			}
			err = json.NewDecoder(response.Body).Decode(&read)
			response.Body.Close()
			if err != nil || len(read.Choices) != 1 || read.Params["do_remote_prefill"] != true {
				fail(fmt.Errorf("the server of prefill answered %d: %+v %w", response.StatusCode, read, err))
				return
			}
			w.Header().Set("x-prefill", prefill+" "+read.Choices[0].Reason)
			body["max_tokens"], body["kv_transfer_params"] = limit, read.Params
		}
		response, err := post(r, decode, body)
		if err != nil {
			fail(err)
			return
		}
		defer response.Body.Close()
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// llm-d-inference-sim plays prefill and decode by kv_transfer_params in bodies; it does not read the headers.
func TestDisagg_LLMDInferenceSimPrefillsAndDecodes(t *testing.T) {
	t.Parallel()
	prefill := llmd(t, "llama", "--max-model-len", "4096")
	decode := sidecar(t, llmd(t, "llama", "--max-model-len", "4096", "--kv-cache-transfer-latency", "5ms"))
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = inRole("prefill", prefill) + "---\n" + inRole("decode", decode)
	files["policy.yaml"] = zonePolicy("{kind: EndpointPickerConfig, name: zone}")
	files["roles.yaml"] = named(prefillDecode)
	s := up(t, files)
	short := answers(t, local(port), http.StatusOK)
	if h := short.header.Get("x-prefill"); h != "" {
		t.Errorf("a short prompt was read at %q", h)
	}
	got := ask(t, local(port), prompt("one", 400))
	if got.status != http.StatusOK || got.header.Get("x-prefill") != prefill+" remote_decode" || !strings.Contains(got.body, "abc abc") {
		t.Errorf("%d, prefill %q: %.300s", got.status, got.header.Get("x-prefill"), got.body)
	}
	page, err := readPage(t.Context(), "http://"+prefill+"/metrics")
	if err != nil || !strings.Contains(page, `finish_reason="remote_decode"`) && !strings.Contains(page, `finished_reason="remote_decode"`) {
		t.Errorf("the server of prefill counts no remote decode: %v\n%s", err, page)
	}
	if text := s.penstock("explain", "--last", "1"); !strings.Contains(text, prefill) || !strings.Contains(text, decode) {
		t.Errorf("explain --last shows not both servers:\n%s", text)
	}
}

// With llm-d's configuration file behind an Envoy that Penstock does not configure.
func TestStandAlonePicker_NamesThePrefillServer(t *testing.T) {
	t.Parallel()
	prefill, decode := modelServer(t, sim.Config{Name: "prefill"}), modelServer(t, sim.Config{Name: "decode"})
	files := aloneFiles()
	files["servers.yaml"] = inRole("prefill", prefill) + "---\n" + inRole("decode", decode)
	config := filepath.Join(t.TempDir(), "plugins.yaml")
	always := strings.Replace(strings.Replace(prefillDecode, "- type: prefix-based-pd-decider\n  parameters:\n    nonCachedTokens: 64\n", "- type: always-disagg-pd-decider\n", 1), "prefix-based-pd-decider", "always-disagg-pd-decider", 1)
	if err := os.WriteFile(config, []byte(always), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startPicker(t, files, "--config-file", config, "--secure-serving=false")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(prefill), portOf(decode)}})
	for _, way := range e.ways() {
		eventually(t, way+" names the server of prefill", func() error {
			got, err := e.chat(way, "x-prefiller-host-port", "10.0.0.1:1", "x-encoder-hosts-ports", "10.0.0.1:1")
			if err != nil || got.header.Get("x-served-by") != "decode" {
				return fmt.Errorf("%d from %q: %s %w", got.status, got.header.Get("x-served-by"), got.body, err)
			}
			if h := lastHeaders(t, decode); h.Get("x-prefiller-host-port") != prefill || len(h.Values("x-prefiller-host-port")) != 1 || h.Get("x-encoder-hosts-ports") != "" {
				return fmt.Errorf("it got %v", h)
			}
			return nil
		})
	}
	if page := p.page(); !strings.Contains(page, `llm_d_epp_disagg_decision_total{decision_type="prefill-decode",model_name="llama",plugin_name="disagg-profile-handler",plugin_type="disagg-profile-handler"}`) {
		t.Errorf("metrics:\n%s", page)
	}
}
