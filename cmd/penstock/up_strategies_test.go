package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// pickerYAML is a policy for the pool chat.
func pickerYAML(picker string) string {
	return "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: chat}, picker: " + picker + "}\n"
}

// ask sends a chat completion with headers in pairs.
func ask(t *testing.T, url, body string, pairs ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		req.Header.Set(pairs[i], pairs[i+1])
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSession_GatewayFollowsItsToken(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "a"}), modelServer(t, sim.Config{Name: "b"}), modelServer(t, sim.Config{Name: "c"}))
	files["policy.yaml"] = pickerYAML("{strategy: session, session: {cookieName: sid}}")
	up(t, files)
	answers(t, local(port), http.StatusOK)
	seen := map[string]bool{}
	for i := range 12 {
		id := fmt.Sprint("user-", i)
		first := ask(t, local(port), question, "x-session-id", id)
		server, token := first.header.Get("x-served-by"), first.header.Get("x-session-token")
		seen[server] = true
		if first.status != http.StatusOK || token == "" {
			t.Fatalf("%d, token %q", first.status, token)
		}
		for _, pairs := range [][]string{{"x-session-id", id}, {"cookie", "sid=" + id}, {"x-session-token", token}, {"x-session-token", token, "x-session-id", "another"}} {
			if got := ask(t, local(port), question, pairs...); got.header.Get("x-served-by") != server {
				t.Errorf("the session of %s is at %s, and %v went to %s", id, server, pairs, got.header.Get("x-served-by"))
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("all sessions at %v", seen)
	}
}

func TestCHWBL_GatewayKeepsConversationsTogether(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "a"}), modelServer(t, sim.Config{Name: "b"}), modelServer(t, sim.Config{Name: "c"}))
	files["policy.yaml"] = pickerYAML("{strategy: chwbl, chwbl: {loadFactorPercent: 10000, maxUserMessagesForCache: 1}}")
	up(t, files)
	answers(t, local(port), http.StatusOK)
	seen := map[string]bool{}
	for i := range 12 {
		turn := `{"role":"system","content":"You are helpful."},{"role":"user","content":"question ` + fmt.Sprint(i) + `"}`
		server := ask(t, local(port), `{"model":"llama","messages":[`+turn+`]}`).header.Get("x-served-by")
		seen[server] = true
		turn += `,{"role":"assistant","content":"an answer"},{"role":"user","content":"and more"}`
		if next := ask(t, local(port), `{"model":"llama","messages":[`+turn+`]}`).header.Get("x-served-by"); next != server || server == "" {
			t.Errorf("a conversation began at %q and went on at %q", server, next)
		}
	}
	if len(seen) < 2 {
		t.Errorf("all conversations at %v", seen)
	}
	if got := ask(t, local(port), `{"model":"llama","messages":[{"role":`); got.status != http.StatusBadRequest || got.header.Get("x-penstock-reason") != "invalid_body" ||
		!strings.Contains(got.body, `"type":"invalid_request_error"`) {
		t.Errorf("a body that is not JSON: %d %v %s", got.status, got.header, got.body)
	}
}

func TestSLO_GatewayShedsWhatComesTooLate(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "slow", TimeToFirstToken: 300 * time.Millisecond}))
	files["policy.yaml"] = pickerYAML("{criticality: Sheddable}")
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	eventually(t, "the server's latency is learned", func() error {
		if err := stream(t.Context(), local(port), "hello", func(string) {}); err != nil {
			return err
		}
		if got := ask(t, local(port), question, "x-llm-d-slo-ttft-ms", "100"); got.status != http.StatusTooManyRequests || got.header.Get("x-penstock-reason") != "shed" {
			return fmt.Errorf("asked for 100 ms: %d %s", got.status, got.body)
		}
		return nil
	})
	if got := ask(t, local(port), question, "x-llm-d-slo-ttft-ms", "30000"); got.status != http.StatusOK {
		t.Errorf("asked for 30 s: %d %s", got.status, got.body)
	}
	if got := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(got, "predicted TTFT") {
		t.Errorf("explained without a prediction:\n%s", got)
	}
	s.write("policy.yaml", pickerYAML("{criticality: Sheddable, shedAfter: 100ms}"))
	answers(t, local(port), http.StatusTooManyRequests)
	s.write("policy.yaml", pickerYAML("{criticality: Standard}"))
	answers(t, local(port), http.StatusOK)
}
