package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// process is POST /process, with one answer for all requests.
type process struct {
	*httptest.Server
	mu     sync.Mutex
	answer string
	status int
	got    struct {
		Body    json.RawMessage   `json:"request_body"`
		Headers map[string]string `json:"headers"`
	}
	calls int
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{status: http.StatusOK, answer: "{}"}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		text, _ := io.ReadAll(r.Body)
		if p.calls++; json.Unmarshal(text, &p.got) != nil || r.URL.Path != "/process" {
			t.Errorf("%s %s", r.URL.Path, text)
		}
		w.WriteHeader(p.status)
		_, _ = io.WriteString(w, p.answer)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *process) answers(status int, format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.answer = status, fmt.Sprintf(format, a...)
}

// last returns the last call's request_body and headers, and how many there were.
func (p *process) last() (body string, headers map[string]string, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.got.Body), p.got.Headers, p.calls
}

// serviceAt is a Service with one address, HOST:PORT.
func serviceAt(name, address string) string {
	host, port, _ := strings.Cut(address, ":")
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {ports: [{name: http, port: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s-1, labels: {kubernetes.io/service-name: %s}}
addressType: IPv4
ports: [{name: http, port: %s}]
endpoints: [{addresses: [%s]}]
`, name, name, name, port, host)
}

// tokenServer answers with the body that it received, and with its name and the key of its tokens in headers.
func tokenServer(t *testing.T, name string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-served-by", name)
		w.Header().Set("x-tokens", strings.Join(r.Header.Values("x-req-tokens-key"), "|"))
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

const (
	unrouted = `{"seed": 9007199254740993, "model":"m", "messages":[{"role":"user","content":"<b>\u00e9"}]}`
	withIDs  = `{"token_ids":[1, 15043],"seed": 9007199254740993, "model":"m", "messages":[{"role":"user","content":"<b>\u00e9"}]}`
)

// withMember is a body with a member at its end.
func withMember(body, member string) string { return body[:len(body)-1] + "," + member + "}" }

// Each answer of a processor takes effect, and without a usable one the pool's own scheduling decides.
func TestProcessor_AnswersTakeEffect(t *testing.T) {
	t.Parallel()
	a, b := tokenServer(t, "a"), tokenServer(t, "b")
	p := startProcess(t)
	port := freePort(t)
	files := chatFiles(port, a, b)
	files["policy.yaml"] = pickerYAML("{strategy: round-robin, processor: {service: processor, headers: [x-tenant]}}")
	s := up(t, files)
	answers(t, local(port), http.StatusOK) // without the Service, too
	eventually(t, "status reports the missing Service", func() error {
		if text := s.penstock("status", "-o", "json"); !strings.Contains(text, "spec.picker.processor: there is no Service default/processor") || !strings.Contains(text, "InvalidProcessorRef") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	s.write("processor.yaml", serviceAt("processor", p.Listener.Addr().String()))
	eventually(t, "the processor is asked", func() error {
		ask(t, local(port), unrouted)
		if _, _, calls := p.last(); calls == 0 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	for _, tt := range []struct {
		sent, answer  string
		status        int
		by, body, key string // by "": any
		requestBody   string
		stays         bool // all requests go to one server
	}{
		{unrouted, `{"token_key":"k1"}`, 200, "", unrouted, "k1", unrouted, false},
		{unrouted, `{"token_value":"[1, 15043]"}`, 200, "", withIDs, "", unrouted, false},
		{withMember(unrouted, `"token_ids":[666]`), `{"token_value":"[1, 15043]"}`, 200, "", withIDs, "", withMember(unrouted, `"token_ids":[666]`), false},
		{withMember(unrouted, `"route":true`), fmt.Sprintf(`{"worker_address":%q,"token_key":"k2"}`, b), 200, "b", unrouted, "k2", withMember(unrouted, `"route":true`), true},
		{withMember(unrouted, `"route":true`), fmt.Sprintf(`{"worker_address":%q,"token_value":"[1, 15043]"}`, a), 200, "a", withIDs, "", withMember(unrouted, `"route":true`), true},
		{withMember(unrouted, `"route":true`), `{"worker_address":"169.254.169.254:80","token_key":"k3"}`, 200, "", unrouted, "k3", withMember(unrouted, `"route":true`), false},
		{withMember(unrouted, `"route":false`), fmt.Sprintf(`{"worker_address":%q}`, b), 200, "", unrouted, "", withMember(unrouted, `"route":false`), false},
		{withMember(unrouted, `"route":true`), `{"error":"no"}`, 422, "", unrouted, "", withMember(unrouted, `"route":true`), false},
	} {
		p.answers(tt.status, "%s", tt.answer)
		served := map[string]bool{}
		for range 4 {
			got := ask(t, local(port), tt.sent, "x-req-tokens-key", "of-another-tenant", "x-tenant", "t1", "authorization", "Bearer secret", "cookie", "c=1")
			served[got.header.Get("x-served-by")] = true
			if got.status != http.StatusOK || got.body != tt.body || got.header.Get("x-tokens") != tt.key || tt.by != "" && got.header.Get("x-served-by") != tt.by {
				t.Errorf("%s: %d from %s, key %q: %s", tt.answer, got.status, got.header.Get("x-served-by"), got.header.Get("x-tokens"), got.body)
			}
		}
		if len(served) == 1 != tt.stays {
			t.Errorf("%s: served by %v", tt.answer, served)
		}
		body, headers, _ := p.last()
		if body != tt.requestBody || len(headers) != 2 || headers["x-tenant"] != "t1" || len(headers["x-request-id"]) < 16 {
			t.Errorf("%s: the processor gets %s and %v", tt.answer, body, headers)
		}
	}
	if text := s.penstock("explain", "--last", "40"); !strings.Contains(text, "processor") || !strings.Contains(text, "worker "+b) || !strings.Contains(text, "the pool's strategy decides (unknown_worker)") || !strings.Contains(text, "rejected in ") || !strings.Contains(text, "the pool's strategy decides (no_answer)") {
		t.Errorf("explain --last:\n%s", text)
	}
	explained := func(want string) {
		t.Helper()
		if text := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text, want) {
			t.Errorf("explain has no %q:\n%s", want, text)
		}
	}
	explained("processor.default.svc:8080 is asked first")
	// Own scheduling goes on while the processor is down, and the breaker leaves it alone.
	p.answers(500, "no")
	for range 20 {
		if got := ask(t, local(port), unrouted); got.status != http.StatusOK || got.body != unrouted {
			t.Errorf("%d: %s", got.status, got.body)
		}
	}
	explained("processor.default.svc:8080 has failed five times in a row, and is not asked for 10 s")
	_, _, before := p.last()
	ask(t, local(port), unrouted)
	if _, _, after := p.last(); after != before {
		t.Errorf("%d calls with the breaker open", after-before)
	}
}

// The processor and the client see the client's own request id where the Gateway keeps it, and Envoy's where there is none.
func TestProcessor_GetsTheClientsRequestID(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	port := freePort(t)
	files := chatFiles(port, tokenServer(t, "a"))
	files["policy.yaml"] = pickerYAML("{processor: {service: processor}}")
	files["processor.yaml"] = serviceAt("processor", p.Listener.Addr().String())
	files["gateway.yaml"] += `  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: edge}}
---
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: edge}
spec: {clients: {requestIDs: Keep}}
`
	up(t, files)
	answers(t, local(port), http.StatusOK)
	for _, sent := range [][]string{{"x-request-id", "order-66"}, nil} {
		got := ask(t, local(port), unrouted, sent...).header.Get("x-request-id")
		if _, headers, _ := p.last(); got == "" || headers["x-request-id"] != got || (got == "order-66") != (sent != nil) {
			t.Errorf("of %q the client gets %q, and the processor %v", sent, got, headers)
		}
	}
}

// The first pool's picker has added tokens when its pod refuses the connection.
func TestProcessor_NextPoolAfterASpillSeesWhatTheClientSent(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	p.answers(200, `{"token_key":"k1","token_value":"[1]"}`)
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	port := freePort(t)
	up(t, map[string]string{
		"gateway.yaml":   gatewayYAML("gw", port),
		"servers.yaml":   serversYAML("chat", closed) + "---\n" + serversYAML("second", tokenServer(t, "second")),
		"pools.yaml":     poolYAML("chat") + "---\n" + poolYAML("second") + "---\n" + routeYAML("chat", "/", toPool("chat")),
		"policy.yaml":    strings.Replace(pickerYAML("{processor: {service: processor, route: true}}"), "picker:", "spill: [{name: second}], picker:", 1),
		"processor.yaml": serviceAt("processor", p.Listener.Addr().String()),
	})
	answers(t, local(port), http.StatusOK)
	sent := withMember(unrouted, `"route":false`)
	for range 5 {
		if got := ask(t, local(port), sent); got.status != http.StatusOK || got.body != sent || got.header.Get("x-tokens") != "" || got.header.Get("x-served-by") != "second" {
			t.Errorf("%d from %s, key %q: %s", got.status, got.header.Get("x-served-by"), got.header.Get("x-tokens"), got.body)
		}
	}
	if _, _, calls := p.last(); calls == 0 {
		t.Error("the first pool's processor was not asked")
	}
}

// The environment names the processor of pools whose policy is silent, and whether it is asked for workers.
func TestProcessor_EnvironmentIsTheDefault(t *testing.T) {
	p, own := startProcess(t), startProcess(t)
	a, b := tokenServer(t, "a"), tokenServer(t, "b")
	p.answers(200, `{"worker_address":%q,"token_key":"k1"}`, b)
	own.answers(200, `{"worker_address":%q,"token_key":"k2"}`, a)
	t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", p.URL)
	t.Setenv("USE_EXTERNAL_LLM_PROCESSOR", "true")
	t.Setenv("USE_EXTERNAL_LLM_ROUTER", "true")
	port := freePort(t)
	files := chatFiles(port, a, b)
	files["processor.yaml"] = serviceAt("processor", own.Listener.Addr().String())
	s := up(t, files)
	becomes := func(by, key string) {
		t.Helper()
		eventually(t, "requests go to "+by, func() error {
			for range 4 {
				if got := ask(t, local(port), unrouted); got.status != http.StatusOK || got.header.Get("x-served-by") != by || got.header.Get("x-tokens") != key || got.body != unrouted {
					return fmt.Errorf("%d from %s, key %q: %s", got.status, got.header.Get("x-served-by"), got.header.Get("x-tokens"), got.body)
				}
			}
			return nil
		})
	}
	becomes("b", "k1")
	if body, _, _ := p.last(); body != strings.TrimSuffix(unrouted, "}")+`,"route":true}` {
		t.Errorf("the processor gets %s", body)
	}
	s.write("policy.yaml", pickerYAML("{processor: {service: processor}}"))
	becomes("a", "k2")
	s.write("policy.yaml", pickerYAML("{strategy: round-robin, processor: {service: processor, route: false}}"))
	eventually(t, "the policy's route counts", func() error {
		served := map[string]bool{}
		for range 4 {
			served[ask(t, local(port), unrouted).header.Get("x-served-by")] = true
		}
		if body, _, _ := own.last(); len(served) != 2 || body != unrouted {
			return fmt.Errorf("served by %v, the processor gets %s", served, body)
		}
		return nil
	})
}

func TestProcessor_InvalidEnvironmentIsNamed(t *testing.T) {
	for _, tt := range []struct{ url, use, router, want string }{
		{"http://processor", "", "", ""}, {"https://processor:8443/v1/process", "1", "false", ""}, {"", "false", "true", ""}, {"nonsense", "false", "", ""},
		{"processor:8080", "", "", `EXTERNAL_LLM_PROCESSOR_ENDPOINT="processor:8080": write http://HOST:PORT`}, {"http://u@h", "", "", "write http://HOST:PORT"}, {"http://a b", "", "", "write http://HOST:PORT"},
		{"", "true", "", "USE_EXTERNAL_LLM_PROCESSOR=true: it needs EXTERNAL_LLM_PROCESSOR_ENDPOINT"}, {"http://p", "", "maybe", `USE_EXTERNAL_LLM_ROUTER="maybe": write true or false`},
	} {
		t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", tt.url)
		t.Setenv("USE_EXTERNAL_LLM_PROCESSOR", tt.use)
		t.Setenv("USE_EXTERNAL_LLM_ROUTER", tt.router)
		if _, err := defaultProcessor(); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// The commands that run nothing show what a process with the same environment does.
func TestProcessor_EnvironmentCountsOffline(t *testing.T) {
	a := tokenServer(t, "a")
	dir := t.TempDir()
	files := chatFiles(freePort(t), a)
	files["policy.yaml"] = pickerYAML("{strategy: round-robin}")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for url, reads := range map[string]bool{"": false, "http://127.0.0.1:9": true} {
		t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", url)
		var out, complaints strings.Builder
		if err := runCommand([]string{"translate", "-f", dir}, &out, &complaints); err != nil || strings.Contains(out.String(), "BUFFERED") != reads {
			t.Errorf("with %q, bodies are read: %v; %v %s", url, !reads, err, complaints.String())
		}
	}
	t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", "processor:8080")
	for _, args := range [][]string{{"translate", "-f", dir}, {"diff", dir, dir}, {"explain", "-f", dir, "http://localhost/"}} {
		var complaints strings.Builder
		if err := runCommand(args, io.Discard, &complaints); err == nil || !strings.Contains(fmt.Sprint(err, complaints.String()), "write http://HOST:PORT") {
			t.Errorf("%v: %v %s", args, err, complaints.String())
		}
	}
}
