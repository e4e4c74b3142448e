package features

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// restrict writes APIKeys with these specs, by name. The key of NAME is sk-secret-NAME.
func (s *site) restrict(specs map[string]string) {
	s.Helper()
	var out strings.Builder
	for name, spec := range specs {
		fmt.Fprintf(&out, "---\napiVersion: penstock.dev/v1alpha1\nkind: APIKey\nmetadata: {name: %s}\n"+
			"spec: {hashes: [%x], %s}\n", name, sha256.Sum256([]byte("sk-secret-"+name)), spec)
	}
	s.Write("keys.yaml", out.String())
}

func secret(name string) []string { return bearer("sk-secret-" + name) }

func inUTF16(text string) string {
	var out []byte
	for _, u := range utf16.Encode([]rune(text)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

// result is outcome for a given body; for gRPC, it is the gRPC status.
func (s *site) result(path, body string, headers ...string) string {
	got, err := s.ask(path, body, headers...)
	if err != nil {
		return err.Error()
	}
	if code := got.header.Get("grpc-status"); code != "" {
		return "grpc " + code
	}
	return strings.TrimSpace(fmt.Sprint(got.status, " ", got.header.Get("x-penstock-reason")))
}

func (s *site) becomes(what, want string, get func() string) {
	s.Helper()
	s.Eventually(what+" is answered "+want, func() error {
		got := get()
		return because(got == want, got)
	})
}

func TestAccessKeys_NoOtherModelByHeaderOrBody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--lora", "sql")
	s.server("b")
	s.restrict(map[string]string{"narrow": "models: [llama]", "wide": `models: ["lla*"]`, "none": "models: []",
		"all": "owner: all"})
	s.up("accesskeys.yaml", with("models"))
	const messages = `"messages":[{"role":"user","content":"hi"}]}`
	const llama, sql = `{"model":"llama",` + messages, `{"model":"sql",` + messages
	s.becomes("an allowed model", "200", func() string { return s.result("/", llama, secret("narrow")...) })
	for _, c := range []struct {
		name, key, body, want string
		headers               []string
	}{
		{"all, its other model", "all", sql, "200", nil},
		{"a prefix", "wide", llama, "200", nil},
		{"a prefix, another model", "wide", sql, "403 model_not_permitted", nil},
		{"none", "none", llama, "403 model_not_permitted", nil},
		{"another model", "narrow", sql, "403 model_not_permitted", nil},
		{"no model", "narrow", "{" + messages, "403 model_not_permitted", nil},
		{"an empty body", "narrow", "", "403 model_not_permitted", nil},
		{"the routing header", "narrow", sql, "403 model_not_permitted", []string{"x-gateway-model-name", "llama"}},
		{"our header", "narrow", sql, "403 model_not_permitted", []string{"x-penstock-model", "llama"}},
		{"our header alone", "narrow", `{}`, "403 model_not_permitted", []string{"x-penstock-model", "llama"}},
		{"two models", "narrow", `{"model":"llama","model":"sql"}`, "400 invalid_model", nil},
		{"two models, one without text", "narrow", `{"model":1,"model":"llama"}`, "400 invalid_model", nil},
		{"another case", "narrow", `{"model":"llama","Model":"sql"}`, "400 invalid_model", nil},
		{"another case, escaped", "narrow", `{"\u004dodel":"sql","model":"llama"}`, "400 invalid_model", nil},
		{"an escaped key", "narrow", `{"mod\u0065l":"sql"}`, "403 model_not_permitted", nil},
		{"below another key", "narrow", `{"a":{"model":"llama"}}`, "403 model_not_permitted", nil},
		{"a list", "narrow", `[{"model":"llama"}]`, "403 model_not_permitted", nil},
		{"UTF-16", "narrow", inUTF16(sql), "400 invalid_body", nil},
		{"encoded", "narrow", llama, "400 invalid_body", []string{"content-encoding", "gzip"}},
		{"a form", "narrow", llama, "403 model_not_permitted",
			[]string{"content-type", "multipart/form-data; boundary=x"}},
		{"another type", "narrow", llama, "403 model_not_permitted", []string{"content-type", "text/plain"}},
		{"two types", "narrow", llama, "403 model_not_permitted",
			[]string{"content-type", "application/json, multipart/form-data; boundary=x"}},
		{"gRPC", "narrow", llama, "grpc 7", []string{"content-type", "application/grpc"}},
		{"an unknown key", "other", llama, "401 invalid_api_key", nil},
	} {
		if got := s.result("/", c.body, append(secret(c.key), c.headers...)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if header := s.last("a").Headers.Get("x-penstock-model"); header != "" {
		t.Error("the server receives x-penstock-model", header)
	}
	upgrade := "GET /v1/realtime?model=sql HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
		"Authorization: Bearer sk-secret-narrow\r\n\r\n"
	if got, err := s.raw(upgrade); err != nil || got.status != http.StatusForbidden {
		t.Errorf("an upgrade: got %d %s %v, want 403", got.status, got.body, err)
	}
	if got, err := s.raw(strings.Replace(upgrade, "1.1", "1.0", 1)); err == nil && got.status < 400 {
		t.Errorf("HTTP/1.0: got %d, want at least 400 or no answer", got.status)
	}
	if got := s.result("/redirect", "{}"); got != "401 invalid_api_key" {
		t.Error("a redirect without a key:", got)
	}
	url := s.base() + "/v1/chat/completions"
	for want, args := range map[string][]string{
		"passes AccessPolicy default/clients as default/narrow":   {url, "--key", "narrow", "--model", "llama"},
		"403 model_not_permitted: it does not name model \"sql\"": {url, "--key", "default/narrow", "--model", "sql"},
		"401 invalid_api_key": {url, "--key", "unknown"},
		"AccessPolicy default/clients requires an API key: add --key NAME": {url},
	} {
		if got, _ := s.command(append([]string{"explain"}, args...)...); !strings.Contains(got, want) {
			t.Errorf("explain %v: got %s, want %s", args, got, want)
		}
	}
	s.write("accesskeys.yaml", with("gate")) // this policy does not read models
	s.becomes("a policy without byModel", "403 model_not_permitted",
		func() string { return s.result("/", llama, secret("narrow")...) })
}

func TestAccessKeys_ListHasWhatTheKeyMayUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--lora", "sql")
	s.server("b", "--model", "phi")
	s.restrict(map[string]string{"narrow": "models: [llama, phi]", "none": "models: []", "all": "owner: all",
		"chat": "pools: [{name: chat}]", "nowhere": "pools: []"})
	s.up("accesskeys.yaml", with("models"))
	list := func(path, key string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base()+path+"/v1/models", nil)
		if err != nil {
			return err.Error()
		}
		req.Header.Set("authorization", "Bearer sk-secret-"+key)
		got, err := do(client(), req)
		if err != nil {
			return err.Error()
		}
		if got.status != http.StatusOK {
			return fmt.Sprint(got.status, " ", got.header.Get("x-penstock-reason"))
		}
		names, err := modelNames(got.body)
		if err != nil {
			return err.Error()
		}
		slices.Sort(names)
		return strings.Join(names, ",")
	}
	s.becomes("the whole list", "llama,sql of llama", func() string { return list("", "all") })
	for _, c := range []struct{ path, key, want string }{
		{"", "narrow", "llama"}, {"/other", "narrow", "phi"}, {"", "none", ""}, {"", "chat", "llama,sql of llama"},
		{"/other", "chat", ""}, {"", "nowhere", ""}, {"", "unknown", "401 invalid_api_key"},
	} {
		if got := list(c.path, c.key); got != c.want {
			t.Errorf("%s%s: %q, want %q", c.key, c.path, got, c.want)
		}
	}
	if got := s.result("", "{}", secret("none")...); got != "403 model_not_permitted" {
		t.Error("another request:", got)
	}
}

func TestAccessKeys_NoOtherPoolBySpillImportServiceOrListenerSet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	s.ports["set"] = s.Port()
	s.restrict(map[string]string{"chat": "pools: [{name: chat}]", "both": "pools: [{name: chat}, {name: other}]",
		"import": "pools: [{kind: InferencePoolImport, name: chat}]", "none": "pools: []", "all": "owner: all",
		"elsewhere": "pools: [{namespace: elsewhere, name: chat}]"})
	s.up("accesskeys.yaml", with("gate", "more"))
	s.becomes("its pool", "200", func() string { return s.result("/", question, secret("chat")...) })
	s.becomes("the import", "200", func() string { return s.result("/far", question, secret("all")...) })
	s.becomes("the Service", "200", func() string { return s.result("/plain", question, secret("all")...) })
	set := func(key string) string {
		got, err := s.post("http://"+s.address("set")+"/v1/chat/completions", question, secret(key)...)
		return strings.TrimSpace(fmt.Sprint(got.status, " ", got.header.Get("x-penstock-reason"))) + errorText(err)
	}
	s.becomes("the ListenerSet", "200", func() string { return set("all") })
	const denied = "403 pool_not_permitted"
	for _, c := range []struct{ path, key, want string }{
		{"/", "both", "200"}, {"/other", "both", "200"}, {"/", "none", denied}, {"/", "import", denied},
		{"/other", "chat", denied}, {"/far", "chat", denied}, {"/far", "import", "200"}, {"/plain", "both", denied},
		{"/", "elsewhere", denied}, {"/redirect", "none", "302"},
		{"//other", "chat", denied}, {"/./other", "chat", denied}, {"/%6fther", "chat", denied},
	} {
		if got := s.result(c.path, question, secret(c.key)...); got != c.want {
			t.Errorf("%s with key %s: %s, want %s", c.path, c.key, got, c.want)
		}
	}
	for key, want := range map[string]string{"chat": denied, "both": "200", "unknown": "401 invalid_api_key"} {
		if got := set(key); got != want {
			t.Errorf("the ListenerSet with key %s: %s, want %s", key, got, want)
		}
	}
	s.write("accesskeys.yaml", with("gate", "more", "spill"))
	s.becomes("a pool that spills", denied, func() string { return s.result("/", question, secret("chat")...) })
	if got := s.result("/", question, secret("both")...); got != "200" {
		t.Error("with the spill target:", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Without a valid key, an upload gets 401 before its body is sent, even if a filter waits for
// bodies. CORS preflights need no key.
func TestAccessKeys_UploadIsDeniedBeforeItsBody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	s.restrict(map[string]string{"all": "owner: all", "narrow": "models: [llama]"})
	s.up("accesskeys.yaml", with("models"))
	s.becomes("a request", "200", func() string { return s.result("/", question, secret("all")...) })
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Content-Length: 31457280\r\n"
	for name, more := range map[string]string{"without a key": "", "with a wrong key": "x-api-key: wrong\r\n"} {
		if got, err := s.raw(head + more + "\r\n"); err != nil || got.status != http.StatusUnauthorized {
			t.Errorf("%s: got %d %v, want 401", name, got.status, err)
		}
	}
	s.write("accesskeys.yaml", with("gate"))
	s.becomes("the gate without scripts", "200", func() string { return s.result("/", question, secret("all")...) })
	if got, err := s.raw(head + "\r\n"); err != nil || got.status != http.StatusUnauthorized {
		t.Errorf("without scripts: got %d %v, want 401", got.status, err)
	}
	for _, part := range []string{"gate", "models"} {
		s.write("accesskeys.yaml", with(part))
		preflight := "OPTIONS /other/v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://app.example\r\n" +
			"Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
		s.becomes("a preflight with "+part, "200 https://app.example", func() string {
			got, err := s.raw(preflight)
			return fmt.Sprint(got.status, " ", got.header.Get("access-control-allow-origin")) + errorText(err)
		})
		body := strings.Replace(preflight, "Connection: close", "Content-Length: 31457280", 1)
		got, err := s.raw(strings.Replace(body, "/other", "", 1)) // the route of this path has no CORS filter
		if err != nil || got.status != http.StatusUnauthorized {
			t.Errorf("an upload as preflight with %s: got %d %v, want 401", part, got.status, err)
		}
	}
	s.write("accesskeys.yaml", with("gate"))
	s.becomes("a late 401 of a page", "401 https://app.example", func() string {
		got, err := s.ask("/other", question, "origin", "https://app.example")
		return fmt.Sprint(got.status, " ", got.header.Get("access-control-allow-origin")) + errorText(err)
	})
}

// The Gateway's policy exempts a route. Other routes still need a key.
func TestAccessKeys_GatewayPolicyOpensARoute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	s.restrict(map[string]string{"all": "owner: all"})
	s.up("accesskeys.yaml", with("except", "forges"))
	s.becomes("the open route", "200", func() string { return s.outcome("/other") })
	if got := s.outcome("/"); got != "401 invalid_api_key" {
		t.Error("another route:", got)
	}
	if got := s.result("/forges", question, secret("all")...); !strings.HasPrefix(got, "500") {
		t.Error("a route that writes the caller:", got)
	}
	s.reports("headers x-penstock-* are Penstock's own")
	s.write("accesskeys.yaml", with("except", "pool"))
	s.becomes("the open route to a gated pool", "401 invalid_api_key", func() string { return s.outcome("/other") })
}
