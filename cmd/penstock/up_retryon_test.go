package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

func retryOn(name, causes, more string) string {
	return fmt.Sprintf("apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: again}\nspec:\n  targetRef: {kind: InferencePoolImport, name: %s}\n  retryOn: [%s]\n%s", name, causes, more)
}

// A model server's own answer moves a request on to another cluster only where a policy allows it.
func TestRetryOn_OwnAnswersOfServersMoveOn(t *testing.T) {
	t.Parallel()
	east, north := newExportingCluster(t, "east"), newExportingCluster(t, "north")
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"far.yaml":     routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" +
			strings.Replace(east.entry("EndpointMode", 1), "    podCIDRs:", "    failureMode: FailOpen\n    podCIDRs:", 1) + north.entry("ParentMode", 1),
	})
	answers(t, local(port)+"/far", http.StatusOK)
	// statuses are those of ten requests while a cluster's server answers with one.
	statuses := func(of *exportingCluster, status int) (out string) {
		of.set(func(c *exportingCluster) { c.status = status })
		for range 10 {
			got, err := chat(t.Context(), local(port)+"/far")
			if err != nil {
				t.Fatal(err)
			}
			if got.status != http.StatusOK {
				out += fmt.Sprint(got.status, " ")
			}
		}
		of.set(func(*exportingCluster) {})
		return out
	}
	own := func(status int) string { return strings.Repeat(fmt.Sprint(status, " "), 5) }
	for _, test := range []struct{ causes, full, unavailable string }{
		{"", own(429), own(503)},
		{"TooManyRequests", "", own(503)},
		{"ServiceUnavailable", own(429), ""},
		{"TooManyRequests, ServiceUnavailable", "", ""},
	} {
		if test.causes != "" {
			s.write("policy.yaml", retryOn("far", test.causes, ""))
		}
		for _, c := range []*exportingCluster{east, north} {
			eventually(t, "retryOn ["+test.causes+"] for the answers of "+c.name, func() error {
				if full, unavailable := statuses(c, 429), statuses(c, 503); full != test.full || unavailable != test.unavailable {
					return fmt.Errorf("answers %q and %q, want %q and %q", full, unavailable, test.full, test.unavailable)
				}
				return nil
			})
		}
	}
	// All are asked once, also one that fails open, and the last answer is the client's.
	east.set(func(c *exportingCluster) { c.status = 429 })
	north.set(func(c *exportingCluster) { c.status = 429 })
	got, err := chat(t.Context(), local(port)+"/far")
	_, first := east.counts()
	_, second := north.counts()
	if err != nil || got.status != http.StatusTooManyRequests || first != 1 || second != 1 {
		t.Errorf("%d %v, with %d and %d answers of the servers", got.status, err, first, second)
	}
}

// A request in flight at a member's gateway that dies is answered by another member, if a policy allows that it runs twice.
func TestRetryOn_LostGatewayMovesRequestsOn(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/", toImport("chat")),
	}, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
	slow := modelServer(t, sim.Config{Name: "east-1", TimeToFirstToken: 20 * time.Second})
	servers := map[string]string{"east": slow, "west": modelServer(t, sim.Config{Name: "west-1"})}
	exporters := map[string]*site{}
	for name, server := range servers {
		files := chatFiles(freePort(t), server)
		files["set.yaml"], files["pool.yaml"] = withPeers(clusterSetYAML(name), freePort(t)), exportedPool(exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode")
		exporters[name] = up(t, files, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
		here.join(exporters[name])
	}
	running := func() bool {
		resp, err := client().Get("http://" + slow + "/metrics")
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		page, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(page), "num_requests_running{") && !strings.Contains(string(page), `num_requests_running{model_name="llama"} 0`)
	}
	// lost is the answer to a request that is at east's server when east's Envoy is killed.
	lost := func() reply {
		t.Helper()
		done := make(chan reply, 1)
		eventually(t, "a request is at the server of the first cluster", func() error {
			if !running() {
				go func() {
					got, _ := chat(t.Context(), local(port))
					select {
					case done <- got:
					default:
					}
				}()
			}
			for range 100 {
				if running() {
					return nil
				}
				select {
				case got := <-done:
					return fmt.Errorf("it was answered %d by %s; status:\n%s", got.status, got.header.Get("x-served-by"), here.penstock("status"))
				case <-time.After(10 * time.Millisecond):
				}
			}
			return fmt.Errorf("it is not there yet")
		})
		for _, pid := range exporters["east"].envoys() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // one of an earlier call
				t.Fatal(err)
			}
		}
		select {
		case got := <-done:
			return got
		case <-time.After(pollTimeout):
			t.Fatal("the request is not answered")
		}
		return reply{}
	}
	first := "  selection: {policy: Priority, order: [east, west]}\n"
	here.write("policy.yaml", strings.Replace(retryOn("chat", "", first), "  retryOn: []\n", "", 1))
	if got := lost(); got.status != http.StatusServiceUnavailable || got.header.Get("penstock-peer-lost") != "" {
		t.Errorf("without retryOn: %d %s by %q, %v", got.status, got.body, got.header.Get("x-served-by"), got.header)
	}
	here.write("policy.yaml", retryOn("chat", "LostGateway", first))
	eventually(t, "with retryOn the other cluster answers", func() error {
		if got := lost(); got.status != http.StatusOK || got.header.Get("x-served-by") != "west-1" || got.header.Get("penstock-peer-lost") != "" {
			return fmt.Errorf("%d %s by %q, %v", got.status, got.body, got.header.Get("x-served-by"), got.header)
		}
		return nil
	})
}
