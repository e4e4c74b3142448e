package modelserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker/kvevents"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// The series that a picker reads must have the same names and labels as in llm-d-inference-sim,
// which also simulates vLLM.
func TestSim_MetricsMatchLLMDInferenceSim(t *testing.T) {
	_, ours := serve(t, Config{LoRAs: []string{"sql"}})
	theirs := startInferenceSim(t)
	ourValues, ourLabels := gauges(t, ours)
	theirValues, theirLabels := gauges(t, theirs)
	for _, name := range []string{
		"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
		"vllm:lora_requests_info", "vllm:cache_config_info",
	} {
		if _, ok := theirValues[name]; !ok {
			t.Errorf("%s: missing in llm-d-inference-sim; was it renamed?", name)
		}
		if _, ok := ourValues[name]; !ok {
			t.Errorf("%s: missing in sim", name)
		}
		sorted := func(labels map[string]string) []string { return slices.Sorted(maps.Keys(labels)) }
		if diff := cmp.Diff(sorted(theirLabels[name]), sorted(ourLabels[name])); diff != "" {
			t.Errorf("%s: labels differ (-theirs +ours):\n%s", name, diff)
		}
	}
}

// TestKVEvents_OfLLMDInferenceSimAreRead reads the events of llm-d-inference-sim, which dials the
// subscriber, in both formats.
func TestKVEvents_OfLLMDInferenceSimAreRead(t *testing.T) {
	for _, format := range []string{"--use-vllm-map-event-format=true", "--use-vllm-map-event-format=false"} {
		t.Run(format, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := subscribe(t, kvevents.Config{Listener: listener}, kvevents.Source{})
			url := startInferenceSim(t, format, "--enable-kvcache", "--zmq-endpoint", "tcp://"+listener.Addr().String(),
				"--block-size", "16", "--event-batch-size", "1", "--kv-cache-size", "32", "--force-dummy-tokenizer",
				"--max-model-len", "4096")
			body := map[string]any{"model": "base", "max_tokens": 1}
			var first, second []rendered
			tries := 0
			poll.NoError(t, "the prompt is reported", poll.Limit, func() error {
				// Each try has a new prompt, because events before the subscription are lost, and a
				// cached prompt is not published again.
				tries++
				body["prompt"], first = words(256, strings.Repeat("a", tries)), nil
				postJSON(t, url+"/v1/completions/render", body, &first)
				postJSON(t, url+"/v1/completions", body, nil)
				if got := s.cached(first[0].TokenIDs, "base"); got != 256 {
					return fmt.Errorf("%d of %d tokens, want 256", got, len(first[0].TokenIDs))
				}
				return nil
			})
			body["model"] = "sql"
			postJSON(t, url+"/v1/completions", body, nil)
			s.eventually(t, "the adapter's blocks", first[0].TokenIDs, "sql", 256)
			body["model"], body["prompt"] = "base", words(512, "z")
			postJSON(t, url+"/v1/completions/render", body, &second)
			postJSON(t, url+"/v1/completions", body, nil)
			s.eventually(t, "a prompt that needs all of the cache", second[0].TokenIDs, "base", 512)
			s.eventually(t, "the prompt that is evicted", first[0].TokenIDs, "base", 0)
		})
	}
}

func startInferenceSim(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := filepath.Abs("../../.tools/bin/llm-d-inference-sim")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: `make sims` builds it", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	_, port, _ := net.SplitHostPort(free.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary,
		append([]string{"--port", port, "--model", "base", "--lora-modules", `{"name":"sql"}`}, args...)...)
	cmd.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); t.Failed() && !errors.Is(err, context.Canceled) {
			t.Logf("llm-d-inference-sim: %v\n%s", err, log.String())
		}
	})
	url := "http://127.0.0.1:" + port
	poll.NoError(t, "llm-d-inference-sim answers", poll.Limit, func() error {
		resp, err := http.Get(url + "/health")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return url
}
