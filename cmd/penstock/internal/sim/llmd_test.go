package sim

import (
	"context"
	"errors"
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

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// A picker that works with this simulator must work with others, and with vLLM. llm-d-inference-sim is the independent
// reference: the series that a picker reads have the same names and labels.
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

// startInferenceSim runs llm-d-inference-sim until the test ends, and returns its URL once it answers.
func startInferenceSim(t *testing.T) string {
	t.Helper()
	binary, err := filepath.Abs("../../../../.tools/bin/llm-d-inference-sim")
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
	cmd := exec.CommandContext(ctx, binary, "--port", port, "--model", "base", "--lora-modules", `{"name":"sql"}`)
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
