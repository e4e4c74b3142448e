package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

func TestClusterSet_DrainWaitsForRequestsOfEachProcess(t *testing.T) {
	t.Parallel()
	process := func(inFlight func() int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w,
				`{"cluster": "east", "draining": true, "inFlight": %d, "drainTime": "10m0s", "members": []}`,
				inFlight())
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
	if got, want := out.String(),
		"Cluster east drains: 2 requests of other clusters are in flight\nCluster east is drained\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if n := asked.Load(); n <= 10 {
		t.Errorf("drained after %d answers of the process with requests, want more than 10", n)
	}
}

// served serves page's result as /clusters at the socket of a new state folder.
func served(t *testing.T, page func() string) (state string) {
	t.Helper()
	state = shortTemp(t)
	l, err := app.ListenSocket(nil, ports.Local, app.Socket(state))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /clusters", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, page()) })
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return state
}

// A member that is not connected does not receive the drain, and keeps sending requests. Drain and
// leave must fail, or a script would stop the cluster too early.
func TestClusterSet_DrainAndLeaveFailWhileAMemberIsNotConnected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "set.yaml")
	if err := os.WriteFile(file,
		[]byte(clusterSetYAML("east", memberYAML(t, "west", "192.0.2.1:1", caBundle(t, time.Hour)),
			memberYAML(t, "north", "192.0.2.2:1", caBundle(t, time.Hour)))), 0o600); err != nil {
		t.Fatal(err)
	}
	written := func() string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	state := served(t, func() string {
		members := `{"name": "here", "connected": true}, {"name": "west"}, {"name": "north"}`
		if !strings.Contains(written(), "west") {
			members = ""
		}
		return fmt.Sprintf(`{"cluster": "east", "draining": %v, "drainTime": "10m0s", "members": [%s]}`,
			strings.Contains(written(), "draining: true"), members)
	})
	in := []string{"-f", dir, "--state", state}
	const want = "members west, north are not connected, and send requests: the drain of cluster east stays in " +
		"force, and reaches them when they connect"
	out, err := penstock(t, append([]string{"clusters", "drain"}, in...)...)
	if err == nil || err.Error() != want || strings.Contains(out, "is drained") {
		t.Errorf("drain: got %v\n%s\nwant %s", err, out, want)
	}
	if out, err := penstock(t, append([]string{"clusters", "leave"}, in...)...); err == nil ||
		!strings.Contains(err.Error(), want+"; no member is removed") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("leave: got %v\n%s\nwant %s; no member is removed, and --force", err, out, want)
	}
	if text := written(); !strings.Contains(text, "draining: true") || !strings.Contains(text, "west") {
		t.Errorf("the ClusterSet: got\n%s\nwant draining: true and the members", text)
	}
	if out, err := penstock(t, append([]string{"clusters", "leave", "--force"}, in...)...); err != nil ||
		!strings.Contains(out, "Cluster east has left") || strings.Contains(written(), "west") {
		t.Errorf("leave --force: got %v\n%s\n%s\nwant that east has left, and no west", err, out, written())
	}
}

// A frozen member counts as connected until its lease ends, and its Envoy keeps sending requests.
// The drain waits for its acknowledgement.
func TestClusterSet_DrainWaitsForAcknowledgements(t *testing.T) {
	t.Parallel()
	page := func(unacknowledged bool) string {
		return fmt.Sprintf(
			`{"cluster": "east", "draining": true, "drainTime": "10m0s", "members": [{"name": "north", "connected": true}, {"name": "west", "connected": true, "unacknowledged": %v}]}`, unacknowledged)
	}
	drain := func(t *testing.T, timeout time.Duration, waits func() bool) (string, error) {
		process := func(page func() string) string {
			s := httptest.NewServer(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, page()) }))
			t.Cleanup(s.Close)
			return strings.TrimPrefix(s.URL, "http://")
		}
		var out strings.Builder
		other := process(func() string { return page(false) }) // this process does not publish to members
		d := setChange{kubeconfig: "named", http: []string{other, process(func() string { return page(waits()) })},
			timeout: timeout}
		err := d.wait(t.Context(), &out)
		return out.String(), err
	}
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		var asked atomic.Int64
		out, err := drain(t, time.Minute, func() bool { return asked.Add(1) < 5 })
		if err != nil || !strings.Contains(out, "Cluster east is drained") {
			t.Errorf(`%s %v, want a text with "Cluster east is drained"`, out, err)
		}
	})
	t.Run("never", func(t *testing.T) {
		t.Parallel()
		out, err := drain(t, drainQuiet+time.Second, func() bool { return true })
		const want = "member west has not acknowledged the drain, and may send requests: the drain of cluster east " +
			"stays in force, and takes effect there when it responds again"
		if err == nil || err.Error() != want || strings.Contains(out, "is drained") {
			t.Errorf("got %s %v, want %s", out, err, want)
		}
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		out, err := penstock(t, "clusters", "list", "-f", t.TempDir(), "--state",
			served(t, func() string { return page(true) }))
		if err != nil ||
			!strings.HasPrefix(out,
				"Cluster east is draining: members send it no new request, except west, which may not have received "+
					"the drain; 0 of theirs are in flight\n") {
			t.Errorf("got %s %v, want that members send no new request, except west", out, err)
		}
	})
}
