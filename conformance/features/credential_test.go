package features

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

var ofClient = []string{"authorization", "Bearer of-the-client", "x-api-key", "of-the-client",
	"api-key", "of-the-client"}

// keyed is a model server that stores the headers of its last request, because penstock sim redacts
// credentials.
type keyed struct {
	mu   sync.Mutex
	last http.Header
}

func (s *site) keyed(name string) *keyed {
	k := &keyed{}
	s.backend(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the picker reads metrics and health
		}
		body, _ := io.ReadAll(r.Body)
		k.mu.Lock()
		k.last = r.Header.Clone()
		k.mu.Unlock()
		w.Header().Set("x-served-by", name)
		w.WriteHeader(http.StatusOK)
		if strings.Contains(string(body), `"stream": true`) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	return k
}

// of waits for the request with this x-request-id, and returns its credentials.
func (k *keyed) of(s *site, id string) (credentials string) {
	s.Helper()
	s.Eventually("the server has the request", func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		h := k.last
		credentials = fmt.Sprint(h.Values("authorization"), h.Values("x-api-key"), h.Values("api-key"))
		return because(h.Get("x-request-id") == id, h)
	})
	return credentials
}

func (k *keyed) requested() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last != nil
}

// No mirror, other backend or spill target receives a pool's own key.
func TestUpstreamCredential_GoesToThePoolsOwnServersAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	servers := map[string]*keyed{}
	for _, name := range []string{"a", "mirror", "spare", "alone"} {
		servers[name] = s.keyed(name)
	}
	s.up("credential.yaml")
	const own, clients = "[Bearer canary-of-chat] [] []", "[Bearer of-the-client] [of-the-client] [of-the-client]"
	received := func(server, id, want string) {
		t.Helper()
		if got := servers[server].of(s, id); got != want {
			t.Errorf("%s receives %s, want %s", server, got, want)
		}
	}
	got := s.answered("/", question, ofClient...)
	if got.by() != "a" {
		t.Fatalf(`got an answer of %q, want "a"`, got.by())
	}
	received("a", got.header.Get("x-request-id"), own)
	received("mirror", got.header.Get("x-request-id"), clients)
	seen := map[string]bool{}
	s.Eventually("both backends have answered", func() error {
		got := s.answered("/both", question, ofClient...)
		seen[got.by()] = true
		received(got.by(), got.header.Get("x-request-id"), map[string]string{"a": own, "mirror": clients}[got.by()])
		return because(seen["a"] && seen["mirror"], seen)
	})
	s.Eventually("a request spills", func() error {
		by, end, err := s.occupy("/")
		if err != nil {
			return err
		}
		defer end()
		if got = s.answered("/", question, ofClient...); by == "a" && got.by() == "spare" {
			received("spare", got.header.Get("x-request-id"), clients)
		}
		return because(by == "a" && got.by() == "spare", by, got.by())
	})
	s.write("credential.yaml", swap("canary-of-chat", "canary-of-later"))
	s.Eventually("the server receives the new token", func() error {
		got := s.answered("/", question, ofClient...)
		now := servers[got.by()].of(s, got.header.Get("x-request-id"))
		return because(now == "[Bearer canary-of-later] [] []", now)
	})
	if strings.Contains(s.output(), "canary") {
		t.Error("penstock logs the key")
	}
}

// While the Secret of its key is missing, a pool's servers get no requests. Responses are 503 with
// a reason, and status has a finding.
func TestUpstreamCredential_MissingSecretFailsClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var server *keyed
	for _, name := range []string{"a", "mirror", "spare", "alone"} {
		server = s.keyed(name)
	}
	s.up("credential.yaml")
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: alone}\nstringData: {token: canary-of-alone}\n"
	closed := func() {
		t.Helper()
		got := s.answers("/alone", http.StatusServiceUnavailable)
		if got.header.Get("x-penstock-reason") == "" || got.by() != "" {
			t.Errorf("503: got the header %v, want a reason and no server", got.header)
		}
		text, err := s.command("status")
		const want = "PoolPolicy default/alone spec.upstreamCredential.secretRef: Secret default/alone does not exist"
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("status: got %v\n%s\nwant %q", err, text, want)
		}
	}
	closed()
	if server.requested() {
		t.Errorf("the server had a request, want none")
	}
	s.Write("secret.yaml", secret)
	id := s.answers("/alone", http.StatusOK).header.Get("x-request-id")
	if got := server.of(s, id); got != "[] [canary-of-alone] []" {
		t.Errorf(`the server receives %s, want "[] [canary-of-alone] []"`, got)
	}
	s.Write("secret.yaml", strings.Replace(secret, "name: alone", "name: renamed", 1))
	closed()
}
