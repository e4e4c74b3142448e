package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

func TestTokenUsage_OutputTokensAreCountedByModel(t *testing.T) {
	t.Parallel()
	port, metrics := freePort(t), freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "a"}))
	files["policy.yaml"] = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {tokenUsage: true}
`
	s := up(t, files, "--http", fmt.Sprintf("127.0.0.1:%d", metrics))
	answers(t, local(port), http.StatusOK)
	const series = `penstock_picker_model_output_tokens_total{model="llama",pool="default/chat"}`
	eventually(t, "tokens of a response are counted", func() error {
		if n := metric(t, metrics, series); n == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
	send := func(stream bool) string {
		t.Helper()
		body := fmt.Sprintf(`{"model": "llama", "stream": %t, "stream_options": {"include_usage": true}, "max_tokens": 7, "messages": [{"role": "user", "content": "a b c d e f g h i j k l m"}]}`, stream)
		if !stream {
			body = strings.Replace(body, `"stream_options": {"include_usage": true}, `, "", 1)
		}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, local(port)+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(client(), req)
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("%v, %d: %s", err, got.status, got.body)
		}
		return got.body
	}
	for _, stream := range []bool{false, true} {
		before := metric(t, metrics, series)
		if text := send(stream); !strings.Contains(text, `"completion_tokens":7`) {
			t.Fatalf("stream %t: %s", stream, text)
		}
		eventually(t, fmt.Sprintf("7 more tokens, stream %t", stream), func() error {
			if n := metric(t, metrics, series); n != before+7 {
				return fmt.Errorf("%g after %g", n, before)
			}
			return nil
		})
	}
	s.remove("policy.yaml")
	eventually(t, "without the policy, responses are not read", func() error {
		before := metric(t, metrics, series)
		send(false)
		requests := `penstock_picker_model_requests_total{model="llama",outcome="served",pool="default/chat"}`
		n := metric(t, metrics, requests)
		eventually(t, "another request ends", func() error {
			send(false)
			if metric(t, metrics, requests) < n+2 {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		if after := metric(t, metrics, series); after != before {
			return fmt.Errorf("%g after %g", after, before)
		}
		return nil
	})
}
