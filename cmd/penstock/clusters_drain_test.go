package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A drain on Kubernetes waits for the requests that each process counts: one that is not asked would end with its requests.
func TestClusterSet_DrainWaitsForRequestsOfEachProcess(t *testing.T) {
	t.Parallel()
	process := func(inFlight func() int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"cluster": "east", "draining": true, "inFlight": %d, "drainTime": "10m0s", "members": []}`, inFlight())
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	var asked atomic.Int64
	idle := process(func() int { return 0 })
	busy := process(func() int {
		if asked.Add(1) > 10 {
			return 0
		}
		return 2
	})
	var out strings.Builder
	d := setChange{kubeconfig: "named", http: []string{idle, busy}}
	if err := d.wait(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "Cluster east drains: 2 requests of other clusters are in flight\nCluster east is drained\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if n := asked.Load(); n <= 10 {
		t.Errorf("drained after %d answers of the process with requests", n)
	}
}
