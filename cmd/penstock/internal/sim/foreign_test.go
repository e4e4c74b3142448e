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
	"time"

	"github.com/google/go-cmp/cmp"
)

// A picker that works with this simulator has to work with others, and with vLLM. llm-d-inference-sim, which we did not
// write, is the measure: the series that a picker reads have the same names, labels and kinds.
func TestItsMetricsAreThoseOfASimulatorThatWeDidNotWrite(t *testing.T) {
	_, ours := serve(t, Config{LoRAs: []string{"sql"}})
	theirs := foreign(t)
	ourValues, ourLabels := gauges(t, ours)
	theirValues, theirLabels := gauges(t, theirs)
	for _, name := range []string{
		"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
		"vllm:lora_requests_info", "vllm:cache_config_info",
	} {
		if _, ok := theirValues[name]; !ok {
			t.Errorf("%s: they do not have it; is it still called that?", name)
		}
		if _, ok := ourValues[name]; !ok {
			t.Errorf("%s: we do not have it", name)
		}
		sorted := func(labels map[string]string) []string { return slices.Sorted(maps.Keys(labels)) }
		if diff := cmp.Diff(sorted(theirLabels[name]), sorted(ourLabels[name])); diff != "" {
			t.Errorf("%s: labels differ (-theirs +ours):\n%s", name, diff)
		}
	}
}

// foreign starts llm-d-inference-sim until the test ends, and returns its URL once it answers.
func foreign(t *testing.T) string {
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
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(url + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("llm-d-inference-sim never answered: %v", err)
		}
	}
}
