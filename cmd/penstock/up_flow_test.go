package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

const flowPolicy = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker:
    trustHeaders: true
    full: {inFlight: 1}
    flowControl: {maxRequests: 3}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: urgent}
spec: {priority: 10, poolRef: {name: chat}}
`

// The server runs one request at a time. Those that wait for it go by priority, and Envoy waits with them.
func TestFlowControl_UrgentRequestPassesThoseThatWait(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "pod", MaxNumSeqs: 1, TimeToFirstToken: 1500 * time.Millisecond}))
	files["policy.yaml"] = flowPolicy
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	ended := make(chan string, 8)
	send := func(name string, header ...string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(port)+"/v1/chat/completions", strings.NewReader(question))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("content-type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		got, err := do(client(), req)
		ended <- fmt.Sprint(name, " ", got.status, " ", got.header.Get("x-penstock-reason"), got.header.Get("x-llm-d-request-dropped-reason"), err)
	}
	waits := func(text string) {
		t.Helper()
		eventually(t, "explain shows "+text, func() error {
			if got := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(got, text) {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
	}
	waits("saturation 0.00") // the request before is reported as ended
	go send("first")
	waits("saturation 1.00")
	for i := range 3 {
		go send(fmt.Sprint("waits ", i))
	}
	waits("priority 0 wait 3 requests, of 1 fairness ID")
	go send("urgent", "x-llm-d-inference-objective", "urgent")
	waits("priority 10 wait 1 request,")
	send("too many")
	for i, want := range []string{"too many 429 queue_fullrejected-saturated", "first 200", "urgent 200", "waits", "waits", "waits"} {
		if got := <-ended; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "<nil>") {
			t.Errorf("request %d to end: %s, want %s", i, got, want)
		}
	}
}
