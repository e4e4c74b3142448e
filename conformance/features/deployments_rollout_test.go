package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// sends keeps requests for a model in flight until end is called. end returns the number of
// answers, and the first failure.
func (s *site) sends(model string, clients int) (end func() (answered int, failed error)) {
	count := s.failures(model, clients)
	return func() (int, error) {
		answered, failed := count()
		if len(failed) > 0 {
			return answered, fmt.Errorf("%d of %d requests failed, want none; the first: %w", len(failed), answered,
				failed[0])
		}
		return answered, nil
	}
}

// failures is like sends, but end returns all failures.
func (s *site) failures(model string, clients int) (end func() (answered int, failed []error)) {
	ctx, stop := context.WithCancel(s.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	var answered int
	var failed []error
	for range clients {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, err := s.asks(model, fmt.Sprint("word ", i), time.Minute)
				mu.Lock()
				if answered++; err != nil {
					failed = append(failed, err)
				}
				mu.Unlock()
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	return func() (int, []error) {
		stop()
		all.Wait()
		return answered, failed
	}
}

// only waits until exactly these servers serve a model.
func (s *site) only(model string, servers ...string) {
	s.Helper()
	s.Eventually(fmt.Sprint(model, " is served by ", servers), func() error {
		for range 6 {
			by, err := s.asks(model, "hello", 10*time.Second)
			if err != nil || !strings.Contains(strings.Join(servers, " "), by) {
				return errors.Join(fmt.Errorf("%q answers, want one of %v", by, servers), err)
			}
		}
		return nil
	})
}

func (s *site) oneServer() {
	s.Helper()
	s.Eventually("one server is left", func() error {
		all := engines(s, s.state)
		return because(len(all) == 1, all)
	})
}

func (s *site) loses(none func() (int, error)) {
	s.Helper()
	switch n, err := none(); {
	case err != nil:
		s.Error(err)
	case n == 0:
		s.Error("no request was sent")
	}
}

func TestRollout_BesideTheOldServerLosesNoRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy()
	end := s.sends("llama", 3)
	s.write("deployments.yaml", swap("model: {name: llama}", "model: {name: llama}\n  variables: {max-num-seqs: 8}"))
	s.only("llama", "llama-1")
	s.oneServer()
	s.write("deployments.yaml", swap("model: {name: llama}", "model: {name: llama}\n  variables: {max-num-seqs: 9}"))
	s.only("llama", "llama-0")
	s.oneServer()
	// A rollout stops at a version that fails.
	s.write("deployments.yaml",
		swap("model: {name: llama}", "model: {name: llama}\n  variables: {time-to-first-token: 1.1.1s}"))
	s.reports("server 1: exit status")
	s.only("llama", "llama-0")
	s.write("deployments.yaml", swap("model: {name: llama}", "model: {name: llama}\n  variables: {max-num-seqs: 9}"))
	s.oneServer()
	s.loses(end)
}

func TestRollout_OneAfterAnotherWithoutASpareDeviceLosesNoRequest(t *testing.T) {
	t.Parallel()
	s, dir := accelerated(t)
	s.deploy(with("gpu-a"), swap("model: {name: gpu-a}", "model: {name: gpu-a}\n  replicas: 2"))
	s.only("gpu-a", "gpu-a-0", "gpu-a-1")
	before := len(s.sees(dir, "gpu-a-0")) + len(s.sees(dir, "gpu-a-1"))
	end := s.sends("gpu-a", 3)
	s.write("deployments.yaml", with("gpu-a"), swap("model: {name: gpu-a}",
		"model: {name: gpu-a}\n  replicas: 2\n  env: [{name: NEW, value: '1'}]"))
	s.Eventually("both servers are new", func() error {
		after := len(s.sees(dir, "gpu-a-0")) + len(s.sees(dir, "gpu-a-1"))
		return because(after == before+2, after)
	})
	s.reports("2 of 2 servers of model gpu-a are ready; server 0 uses device")
	s.loses(end)
}

func TestRollout_OneServerWithoutASpareDeviceWaitsForRecreate(t *testing.T) {
	t.Parallel()
	s, dir := accelerated(t)
	s.flags = []string{"--devices", "1"}
	s.env = append(s.env, "CUDA_VISIBLE_DEVICES=0")
	s.deploy(with("gpu-a"))
	s.only("gpu-a", "gpu-a-0")
	end := s.sends("gpu-a", 3)
	changed := "model: {name: gpu-a}\n  env: [{name: NEW, value: '1'}]"
	s.write("deployments.yaml", with("gpu-a"), swap("model: {name: gpu-a}", changed))
	s.reports("the change waits for room beside the server that runs: it needs 1 device, and 0 of 1 are free")
	s.write("deployments.yaml", with("gpu-a"), swap("model: {name: gpu-a}", changed+"\n  strategy: Recreate"))
	s.Eventually("the server is new", func() error {
		starts := s.sees(dir, "gpu-a-0")
		return because(len(starts) == 2, starts)
	})
	s.only("gpu-a", "gpu-a-0")
	s.loses(end)
}

// Two deployments exchange their models. The server of the other model rejects requests that Envoy
// routed before the change. Later requests are served.
func TestRollout_ExchangedModelsReachTheirServers(t *testing.T) {
	t.Parallel()
	const clients = 3
	s := newSite(t)
	s.deploy(with("pair"))
	s.only("one", "first-0")
	s.only("two", "second-0")
	ends := []func() (int, []error){s.failures("one", clients), s.failures("two", clients)}
	s.write("deployments.yaml", with("pair"), swap("{name: one}", "{name: third}"),
		swap("{name: two}", "{name: one}"), swap("{name: third}", "{name: two}"))
	s.only("two", "first-1")
	s.only("one", "second-1")
	for _, end := range ends {
		if answered, failed := end(); len(failed) > clients || answered <= clients {
			t.Errorf("got %d failed requests of %d, want at most %d, which were in flight: %v", len(failed), answered,
				clients, failed)
		}
	}
}
