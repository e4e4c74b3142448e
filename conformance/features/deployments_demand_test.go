package features

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// asks sends a chat completion for a model. It returns an error unless the answer is complete.
func (s *site) asks(model, prompt string, limit time.Duration) (by string, err error) {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": %q}]}`, model, prompt)
	req, err := request(ctx, s.url("/"), body)
	if err != nil {
		return "", err
	}
	got, err := do(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, req)
	if err == nil && (got.status != http.StatusOK || !strings.Contains(got.body, prompt)) {
		err = fmt.Errorf("got %d %s, want 200 with the prompt", got.status, got.body)
	}
	return got.by(), err
}

func TestIdle_AModelWithoutRequestsStopsAndTheNextRequestStartsIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy(with("naps", "fails"))
	sleeps := func() {
		t.Helper()
		s.reports("no requests for 1s; a request starts it")
	}
	sleeps()
	if got, err := s.get(s.base() + "/v1/models"); err != nil || !strings.Contains(got.body, `"naps"`) {
		t.Errorf("the models are %s %v, want naps, which is Asleep", got.body, err)
	}
	s.Eventually("the server of naps has ended", func() error {
		all := engines(t, s.state)
		return because(len(all) == 2, all) // servers of the models "llama" and "fails"
	})
	if by, err := s.asks("naps", "hello", 30*time.Second); err != nil || by != "naps-0" {
		t.Errorf("a request for a model that is Asleep: got %q %v, want naps-0", by, err)
	}
	sleeps()
	// A stream is not cut although it lasts longer than its model's idle time.
	words, begun := strings.TrimSpace(strings.Repeat("word ", 60)), time.Now()
	if _, err := s.asks("naps", words, 30*time.Second); err != nil || time.Since(begun) < 2*time.Second {
		t.Errorf("a long response: got %v after %v, want no error, after at least 2 s", err, time.Since(begun))
	}
	got, err := s.ask("/", strings.Replace(question, "llama", "fails", 1))
	reason := got.header.Get("x-penstock-reason")
	if err != nil || got.status != http.StatusServiceUnavailable || reason != "start_failed" ||
		!strings.HasPrefix(got.body, `{"error":`) || !strings.Contains(got.body, "exit status 1") {
		t.Errorf("a server that does not start: got %d %v %s %v, want 503 start_failed with its exit status 1",
			got.status, got.header, got.body, err)
	}
}

// slowServer serves slowly, and cuts responses when it is stopped.
const slowServer = `#!/bin/sh
echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES" >> "FILES/$2.devices"
exec PENSTOCK sim --listen "$1" --name "$2" --model "$3" --inter-token-latency 10ms --grace 1ms
`

func TestSwap_RandomRequestsForThreeModelsOnOneDeviceAreServed(t *testing.T) {
	t.Parallel()
	s, dir := accelerated(t)
	s.executable(dir, "cuda-server", slowServer)
	s.flags = []string{"--devices", "1"}
	s.env = append(s.env, "CUDA_VISIBLE_DEVICES=0")
	models := []string{"gpu-a", "gpu-b", "gpu-c"}
	s.deploy(with(models...))
	random := rand.New(rand.NewPCG(45, 9))
	var requests sync.WaitGroup
	for i := range 40 {
		model, prompt := models[random.IntN(3)], strings.Repeat(fmt.Sprint("r", i, " "), 1+random.IntN(100))
		requests.Go(func() {
			if by, err := s.asks(model, strings.TrimSpace(prompt), 2*time.Minute); err != nil || by != model+"-0" {
				t.Errorf("request %d for %s: got %q, %v, want %s-0", i, model, by, err, model)
			}
		})
		pause(t.Context(), time.Duration(random.IntN(300))*time.Millisecond)
	}
	requests.Wait()
	starts := 0
	for _, model := range models {
		starts += len(s.sees(dir, model+"-0"))
	}
	if starts <= len(models) {
		t.Errorf("servers started %d times, want swaps", starts)
	}
	s.reports("needs its room; a request starts it")
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
