package features

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// processor serves POST /process. All requests get the same answer, which a test changes.
type processor struct {
	s      *site
	mu     sync.Mutex
	answer string
	status int
	got    struct {
		Body    json.RawMessage   `json:"request_body"`
		Headers map[string]string `json:"headers"`
	}
	calls int
}

func (s *site) processor(name string) *processor {
	p := &processor{s: s, status: http.StatusOK, answer: "{}"}
	s.backend(name, p)
	return p
}

func (p *processor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	if p.calls++; json.Unmarshal(text, &p.got) != nil || r.URL.Path != "/process" {
		p.s.Errorf("%s %s", r.URL.Path, text)
	}
	w.WriteHeader(p.status)
	_, _ = io.WriteString(w, p.answer)
}

func (p *processor) answers(status int, answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.answer = status, answer
}

func (p *processor) last() (body string, headers map[string]string, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.got.Body), p.got.Headers, p.calls
}

const unrouted = `{"seed": 9007199254740993, "model":"llama", "messages":[{"role":"user","content":"<b>\u00e9"}]}`

var withIDs = `{"token_ids":[1, 15043],` + unrouted[1:]

func withMember(body, member string) string { return body[:len(body)-1] + "," + member + "}" }

// processed sends a body. It returns the server, and the body and token key that the server
// received.
func (s *site) processed(body string, headers ...string) (by, received, key string) {
	s.Helper()
	by = s.answered("/", body, headers...).by()
	last := s.last(by)
	return by, last.Body, strings.Join(last.Headers.Values("x-req-tokens-key"), "|")
}

// If a processor's answer is unusable, the pool's own scheduling decides.
func TestProcessor_AnswersTakeEffect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	p := s.processor("processor")
	s.up("processor.yaml", with("two", "answers"))
	s.answers("/", http.StatusOK) // served without the Service, too
	s.reports("spec.picker.processor: there is no Service default/processor")
	if text := s.print("status", "-o", "json"); !strings.Contains(text, "InvalidProcessorRef") {
		t.Errorf("status: got\n%s\nwant InvalidProcessorRef", text)
	}
	s.write("processor.yaml", with("two", "answers", "processor"))
	s.Eventually("the processor is asked", func() error {
		s.answered("/", unrouted)
		_, _, calls := p.last()
		return because(calls > 0, "it is not")
	})
	routed, declined := withMember(unrouted, `"route":true`), withMember(unrouted, `"route":false`)
	b := s.address("b")
	for _, tt := range []struct {
		sent, answer  string
		status        int
		by, body, key string // by "": any server
		stays         bool   // one server must get all requests
	}{
		{unrouted, `{"token_key":"k1"}`, 200, "", unrouted, "k1", false},
		{unrouted, `{"token_value":"[1, 15043]"}`, 200, "", withIDs, "", false},
		{withMember(unrouted, `"token_ids":[666]`), `{"token_value":"[1, 15043]"}`, 200, "", withIDs, "", false},
		{routed, fmt.Sprintf(`{"worker_address":%q,"token_key":"k2"}`, b), 200, "b", unrouted, "k2", true},
		{routed, fmt.Sprintf(`{"worker_address":%q,"token_value":"[1, 15043]"}`, s.address("a")), 200, "a", withIDs, "",
			true},
		{routed, `{"worker_address":"169.254.169.254:80","token_key":"k3"}`, 200, "", unrouted, "k3", false},
		{declined, fmt.Sprintf(`{"worker_address":%q}`, b), 200, "", unrouted, "", false},
		{routed, `{"error":"no"}`, 422, "", unrouted, "", false},
	} {
		p.answers(tt.status, tt.answer)
		served := map[string]bool{}
		for range 4 {
			by, got, key := s.processed(tt.sent, "x-req-tokens-key", "of-another-tenant", "x-tenant", "t1",
				"authorization",
				"Bearer secret", "cookie", "c=1")
			if served[by] = true; got != tt.body || key != tt.key || tt.by != "" && by != tt.by {
				t.Errorf("%s: %q gets key %q: %s, want %q gets key %q: %s", tt.answer, by, key, got, tt.by, tt.key,
					tt.body)
			}
		}
		if len(served) == 1 != tt.stays {
			t.Errorf("%s: served by %v, want one server alone: %t", tt.answer, served, tt.stays)
		}
		body, headers, _ := p.last()
		if body != tt.sent || len(headers) != 2 || headers["x-tenant"] != "t1" || len(headers["x-request-id"]) < 16 {
			t.Errorf("%s: the processor gets %s and %v, want %s, x-tenant t1 and an x-request-id alone", tt.answer,
				body, headers, tt.sent)
		}
	}
	text := s.explain("--last", "40")
	for _, want := range []string{
		"processor", "worker " + b, "the pool's strategy decides (unknown_worker)", "rejected in ",
		"the pool's strategy decides (no_answer)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("explain --last: got\n%s\nwant %q", text, want)
		}
	}
	s.ownSchedulingGoesOn(p)
}

// ownSchedulingGoesOn makes the processor fail. Requests are served, and the circuit breaker opens.
func (s *site) ownSchedulingGoesOn(p *processor) {
	s.Helper()
	explained := func(want string) {
		s.Helper()
		if text := s.explain(s.url("/")); !strings.Contains(text, want) {
			s.Errorf("explain: got\n%s\nwant %q", text, want)
		}
	}
	explained("processor.default.svc:8080 is asked first")
	p.answers(http.StatusInternalServerError, "no")
	for range 20 {
		if _, got, _ := s.processed(unrouted); got != unrouted {
			s.Error(got)
		}
	}
	explained("processor.default.svc:8080 has failed five times in a row, and is not asked for 10 s")
	_, _, before := p.last()
	s.answered("/", unrouted)
	if _, _, after := p.last(); after != before {
		s.Errorf("calls with the breaker open: got %d, want 0", after-before)
	}
}

// The processor and the client get the same request ID: the client's if the Gateway keeps it,
// otherwise Envoy's.
func TestProcessor_GetsTheClientsRequestID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	p := s.processor("processor")
	s.up("processor.yaml", with("keep", "one", "plain", "processor"), swap("spec:\n  gatewayClassName",
		"spec:\n  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: edge}}\n  "+
			"gatewayClassName"))
	s.answers("/", http.StatusOK)
	for _, sent := range [][]string{{"x-request-id", "order-66"}, nil} {
		got := s.answered("/", unrouted, sent...).header.Get("x-request-id")
		if _, headers, _ := p.last(); got == "" || headers["x-request-id"] != got ||
			(got == "order-66") != (sent != nil) {
			t.Errorf("of %q the client gets %q, and the processor %v, want one ID, the client's if it has sent one",
				sent, got, headers)
		}
	}
}

// The first pool's picker adds tokens, and its server is unreachable. The second pool's server must
// receive the client's body.
func TestProcessor_NextPoolAfterASpillSeesWhatTheClientSent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("nowhere")
	s.server("second")
	p := s.processor("processor")
	p.answers(http.StatusOK, `{"token_key":"k1","token_value":"[1]"}`)
	s.up("processor.yaml", with("spills", "processor"))
	s.answers("/", http.StatusOK)
	sent := withMember(unrouted, `"route":false`)
	for range 5 {
		if by, got, key := s.processed(sent); got != sent || key != "" || by != "second" {
			t.Errorf(`%q gets key %q: %s, want "second" without a key and the client's body`, by, key, got)
		}
	}
	if _, _, calls := p.last(); calls == 0 {
		t.Error("the first pool's processor was not asked")
	}
}

// The environment sets the default processor of pools, and whether the processor chooses servers.
func TestProcessor_EnvironmentIsTheDefault(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	p, own := s.processor("environment"), s.processor("processor")
	p.answers(http.StatusOK, fmt.Sprintf(`{"worker_address":%q,"token_key":"k1"}`, s.address("b")))
	own.answers(http.StatusOK, fmt.Sprintf(`{"worker_address":%q,"token_key":"k2"}`, s.address("a")))
	s.env = []string{
		"EXTERNAL_LLM_PROCESSOR_ENDPOINT=http://" + s.address("environment"),
		"USE_EXTERNAL_LLM_PROCESSOR=true", "USE_EXTERNAL_LLM_ROUTER=true",
	}
	s.up("processor.yaml", with("two", "processor"))
	becomes := func(server, tokens string) {
		t.Helper()
		s.Eventually("requests go to "+server, func() error {
			for range 4 {
				if by, got, key := s.processed(unrouted); by != server || key != tokens || got != unrouted {
					return fmt.Errorf("%q gets key %q: %s, want %q, %q and the client's body", by, key, got, server,
						tokens)
				}
			}
			return nil
		})
	}
	becomes("b", "k1")
	if body, _, _ := p.last(); body != withMember(unrouted, `"route":true`) {
		t.Errorf(`the processor gets %s, want "route":true in it`, body)
	}
	s.write("processor.yaml", with("two", "processor", "plain"))
	becomes("a", "k2")
	s.write("processor.yaml", with("two", "processor", "unrouted"))
	s.Eventually("the policy's route counts", func() error {
		served := map[string]bool{}
		for range 4 {
			served[s.answered("/", unrouted).by()] = true
		}
		body, _, _ := own.last()
		return because(len(served) == 2 && body == unrouted, "served by ", served, ", the processor gets ", body)
	})
}

// A processor tokenizes for the server's model, so the picker chooses the target model before the
// call.
func TestProcessor_GetsTheModelThatTheServerGets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--lora", "v1,v2")
	p := s.processor("processor")
	p.answers(http.StatusOK, `{"token_value":"[1, 15043]"}`)
	s.up("processor.yaml", with("one", "plain", "processor", "models"))
	s.answers("/", http.StatusOK)
	seen := map[string]bool{}
	for range 20 {
		_, got, _ := s.processed(withMember(unrouted, `"route":false`))
		asked, _, _ := p.last()
		var model struct{ Model string }
		if err := json.Unmarshal([]byte(got), &model); err != nil {
			t.Fatal(err)
		}
		seen[model.Model] = true
		renamed := strings.Replace(unrouted, "llama", model.Model, 1)
		if want := withMember(renamed, `"route":false`); asked != want {
			t.Errorf("the processor gets %s, want %s", asked, want)
		}
		if want := `{"token_ids":[1, 15043],` + renamed[1:]; got != want {
			t.Errorf("the server gets %s, want %s", got, want)
		}
	}
	if !seen["v1"] || !seen["v2"] || len(seen) != 2 {
		t.Errorf("models: got %v, want v1 and v2", seen)
	}
}
