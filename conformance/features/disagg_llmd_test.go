package features

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sidecar imitates llm-d's routing sidecar (connector nixlv2), which llm-d-inference-sim lacks. It
// sends the prompt, for one token, to the server in the header, and then the request with the
// cache's location to its own server.
func (s *site) sidecar(name, decode string) {
	post := func(r *http.Request, server string, body map[string]any) (*http.Response, error) {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+server+r.URL.Path,
			bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		out.Header.Set("content-type", "application/json")
		return http.DefaultClient.Do(out)
	}
	s.backend(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			body["max_tokens"], body["kv_transfer_params"] = 1, map[string]any{"do_remote_decode": true,
				"do_remote_prefill": false}
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
				fail(fmt.Errorf("the server of prefill answered %d: %+v %w, want one choice and do_remote_prefill",
					response.StatusCode, read, err))
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
}

// llm-d-inference-sim simulates prefill and decode by kv_transfer_params in bodies, without
// headers.
func TestDisagg_LLMDInferenceSimPrefillsAndDecodes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.llmd("prefill", "--max-model-len", "4096")
	s.llmd("decode-server", "--max-model-len", "4096", "--kv-cache-transfer-latency", "5ms")
	s.sidecar("decode", s.address("decode-server"))
	s.up("disagg.yaml", with("prefill", "decode", "policy", "roles"))
	short := s.answers("/", http.StatusOK)
	if h := short.header.Get("x-prefill"); h != "" {
		t.Errorf("a short prompt was read at %q, want no prefill", h)
	}
	prefill := s.address("prefill")
	got := s.answered("/", prompt("one", 400))
	if got.header.Get("x-prefill") != prefill+" remote_decode" || !strings.Contains(got.body, "abc abc") {
		t.Errorf(`prefill %q: %.300s, want %q and a text with "abc abc"`,
			got.header.Get("x-prefill"), got.body, prefill+" remote_decode")
	}
	page, err := s.get("http://" + prefill + "/metrics")
	if err != nil || !strings.Contains(page.body, `finish_reason="remote_decode"`) &&
		!strings.Contains(page.body, `finished_reason="remote_decode"`) {
		t.Errorf("the server of prefill: got %v\n%s\nwant a count with finish_reason remote_decode", err, page.body)
	}
	if text := s.explain("--last", "1"); !strings.Contains(text, prefill) ||
		!strings.Contains(text, s.address("decode")) {
		t.Errorf("explain --last: got\n%s\nwant the servers of prefill and decode", text)
	}
}
