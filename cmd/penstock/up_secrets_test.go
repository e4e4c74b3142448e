package main

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/identity"
)

// secrets maps a description to a text that must appear nowhere.
type secrets map[string]string

const (
	clientToken    = "a client's credential"
	cookie         = "a client's cookie"
	clientKey      = "a client's key"
	queryKey       = "a client's key in the query"
	secretToken    = "a token of a Secret"
	secretPassword = "a password of a Secret"
	annotation     = "a kubectl annotation"
	configValue    = "a value of a ConfigMap"
	setHeader      = "a header that a route sets"
	matchedHeader  = "a header that a route matches"
	matchedQuery   = "a parameter that a route matches"
	plugin         = "a parameter of a plugin"
	redirectQuery  = "a parameter of a redirect"
	rewriteQuery   = "a parameter of a rewrite"
	pathQuery      = "a parameter in a path that a route matches"
	invalidHeader  = "a header that is invalid"
	invalidRegex   = "a header that is an invalid expression"
)

// in fails if text has a secret, plain or in base64, as JSON encodes bytes.
func (s secrets) in(t *testing.T, where string, text []byte) {
	t.Helper()
	for what, secret := range s {
		for _, form := range []string{
			secret, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
		} {
			if i := bytes.Index(text, []byte(form)); i >= 0 {
				t.Errorf("%s has %s: …%s", where, what, text[max(0, i-200):min(len(text), i+40)])
			}
		}
	}
}

// secretFiles adds secrets to s, and returns files that have them wherever a user may write one.
func secretFiles(t *testing.T, s secrets, port, secure int, server string) map[string]string {
	t.Helper()
	for n, what := range []string{
		clientToken, cookie, clientKey, queryKey, secretToken, secretPassword, annotation, configValue,
		setHeader, matchedHeader, matchedQuery, plugin, invalidHeader, invalidRegex, redirectQuery, rewriteQuery,
		pathQuery,
	} {
		s[what] = fmt.Sprintf("canary-%03d", n)
	}
	cert, key := certificate(t, "secure.example")
	s.key(t, "the key of a Gateway's certificate", key)
	files := chatFiles(port, server)
	files["gateway.yaml"] = strings.Replace(files["gateway.yaml"], "listeners: [", fmt.Sprintf(
		"listeners: [{name: https, port: %d, protocol: HTTPS, hostname: secure.example, "+
			"tls: {certificateRefs: [{name: cert}]}}, ", secure), 1)
	files["route.yaml"] = strings.Replace(files["route.yaml"], "filters: [", "filters: [{type: RequestHeaderModifier, "+
		"requestHeaderModifier: {set: [{name: Authorization, value: Bearer "+s[setHeader]+"}]}}, ", 1) + `  - matches:
    - path: {type: PathPrefix, value: /keyed}
      headers: [{name: X-Api-Key, type: RegularExpression, value: "open|` + s[matchedHeader] + `"}]
      queryParams: [{name: api_key, type: RegularExpression, value: "open|` + s[matchedQuery] + `"}]
    backendRefs: [` + toPool("chat") + `]
  - matches: [{path: {type: PathPrefix, value: /redirected}}]
    filters:
    - type: RequestRedirect
      requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: "/v1?api_key=` + s[redirectQuery] + `"}}
  - matches: [{path: {type: PathPrefix, value: /rewritten}}]
    filters:
    - type: URLRewrite
      urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: "/v1?api_key=` + s[rewriteQuery] + `"}}
    backendRefs: [` + toPool("chat") + `]
`
	files["path.yaml"] = strings.Replace(routeYAML("path", "/", toPool("chat")), "value: /}",
		`value: "/v1?api_key=`+s[pathQuery]+`"}`, 1)
	files["secret.yaml"] = secretYAML("cert", append(slices.Clone(cert), key...), key) + `---
apiVersion: v1
kind: Secret
metadata: {name: epp, annotations: {kubectl.kubernetes.io/last-applied-configuration: ` + s[annotation] + `}}
stringData: {token: ` + s[secretToken] + `, password: ` + s[secretPassword] + `}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {token: ` + s[configValue] + `}
`
	files["policy.yaml"] = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  upstreamCredential: {secretRef: {name: epp}}
  picker:
    strategy: plugins
    plugins:
      scorers: [{type: prefix-cache-scorer, weight: 1, parameters: {huggingFaceToken: ` + s[plugin] + `}}]
`
	files["invalid.yaml"] = strings.Replace(routeYAML("invalid", "/", toPool("chat")), "filters: [", "filters: ["+
		`{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Authorization, value: "`+s[invalidHeader]+
		`\t"}]}}, `, 1)
	files["regex.yaml"] = strings.Replace(routeYAML("regex", "/", toPool("chat")), "{path:",
		`{headers: [{name: Authorization, type: RegularExpression, value: "`+s[invalidRegex]+`("}], path:`, 1)
	files["set.yaml"] = clusterSetYAML("east", newTestMember(t, "home").member())
	return files
}

// key adds 16 characters of a PEM private key's base64 that no other key shares.
func (s secrets) key(t *testing.T, what string, text []byte) {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s is no PEM", what)
	}
	s[what] = base64.StdEncoding.EncodeToString(block.Bytes)[48:64]
}

func pagePatterns(t *testing.T) (out []string) {
	t.Helper()
	for _, dir := range []string{"internal/app", "internal/debug"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"GET (/[^" ]*)"`).FindAllStringSubmatch(string(text), -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func pageRequests(t *testing.T, pattern, node string) []string {
	t.Helper()
	explain := "?url=" + url.QueryEscape("http://any.example/v1/chat/completions") + "&method=POST" +
		"&header=" + url.QueryEscape("Authorization: Bearer canary-000")
	with := map[string][]string{
		"/metrics": {""}, "/healthz": {""}, "/readyz": {""},
		"/status": {"", "?output=text"}, "/proxies": {""}, "/debug/rates": {""}, "/debug/suspect": {""},
		"/debug/serving": {""}, "/clusters": {""}, "/explain": {explain}, "/usage": {""},
		"/debug/picks": {"", "?pool=default/chat", "?last=50"}, "/debug/pool": {"?pool=default/chat"},
		"/debug/graph":    {"?key=default/gw", "?key=secret", "?key=cert", "?key=key/own", "?key=default/chat"},
		"/debug/xds/dump": {"?gateway=default/gw"}, "/debug/xds/diff": {"?node=" + node},
		"/debug/pprof/":        {"goroutine?debug=2", "heap?debug=1"},
		"/debug/pprof/profile": nil, "/debug/pprof/trace": nil, // profiles have only program addresses
	}
	if base, ok := strings.CutSuffix(pattern, "{kind}"); ok {
		var all []string
		for _, kind := range store.Tables() {
			all = append(all, base+kind.Kind())
		}
		return all
	}
	queries, ok := with[pattern]
	if !ok {
		t.Errorf("the page %s is new: add requests for it", pattern)
	}
	var all []string
	for _, q := range queries {
		all = append(all, pattern+q)
	}
	return all
}

// No page, command, log, span or readable file has a secret of a user or client.
func TestSecrets_NoPageCommandLogOrOpenFileHasACredential(t *testing.T) {
	t.Parallel()
	s := secrets{}
	port, secure, ours := freePort(t), freePort(t), t.TempDir()
	collected, collector := collect(t)
	site := prepare(t, secretFiles(t, s, port, secure, serverNamed(t, "pod-1")))
	dir := credentialsFor(t, filepath.Join(ours, "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	s["a token of Envoys"] = "canary-envoys-m3"
	if err := os.WriteFile(in("tokens"), []byte(s["a token of Envoys"]), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := identity.Files{Key: in("penstock.key")}.PickKey()
	if err != nil {
		t.Fatal(err)
	}
	s["the root of all pick keys"], s["a private key"] = root, "PRIVATE KEY-----"
	site.env = append(site.env, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector)
	site.args = []string{
		"--members-listen", "127.0.0.1:0", "--picker", fmt.Sprintf("127.0.0.1:%d", freePort(t)),
		"--xds", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "--xds-cert", in("penstock.crt"), "--xds-key",
		in("penstock.key"),
		"--xds-client-ca", in("ca.crt"), "--xds-token", in("tokens"),
		"--access-log", filepath.Join(ours, "access.log"), "--record", filepath.Join(ours, "trace"),
	}
	site.start()
	site.out.expect(t, "serves at")
	answers(t, local(port), http.StatusOK)
	at := local(port) + "/v1/chat/completions?key=" + s[queryKey]
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + s[clientToken]},
		"Cookie": {"session=" + s[cookie]}, "X-Api-Key": {s[clientKey]},
		"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}
	request.Host = "logged.example"
	if got, err := do(client(), request); err != nil || got.status != http.StatusOK {
		t.Fatalf("got %v, %v, want 200", got, err)
	}
	s.keysOf(t, site.state)
	s.pages(t, site)
	s.commands(t, site, port)
	eventually(t, "the request is logged", func() error {
		text, err := os.ReadFile(filepath.Join(ours, "access.log"))
		if err == nil && !bytes.Contains(text, []byte(request.Host)) {
			err = fmt.Errorf("it is %s, want a line of %s", text, request.Host)
		}
		return err
	})
	eventually(t, "the request has spans", func() error {
		if !slices.ContainsFunc(collected.all(), func(sp span) bool {
			return fmt.Sprintf("%x", sp.TraceId) == "4bf92f3577b34da6a3ce929d0e0e4736" &&
				strings.HasPrefix(sp.Name, "ingress")
		}) {
			return fmt.Errorf("they are %q, want one of ingress in the trace", names(collected.all()))
		}
		return nil
	})
	for _, sp := range collected.all() {
		s.in(t, "a span", []byte(sp.String()))
	}
	for _, finding := range []string{"has an invalid format: a value that is not shown",
		"the regular expression is not one of RE2"} {
		site.errs.expect(t, finding)
	}
	site.stop()
	s.in(t, "the output", []byte(site.out.String()))
	s.in(t, "the log", []byte(site.errs.String()))
	s.files(t, site.state, ours)
}

func (s secrets) keysOf(t *testing.T, state string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(state, "cluster", "authority.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), `"tls.key":"`)
	text, _, _ = strings.Cut(text, `"`)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	s.key(t, "the key of the cluster's authority", key)
}

func (s secrets) pages(t *testing.T, site *site) {
	t.Helper()
	process := runningFor(site.state)
	for _, pattern := range pagePatterns(t) {
		for _, request := range pageRequests(t, pattern, "default/gw") {
			body, err := process.open(t.Context(), request)
			if err != nil {
				t.Logf("%s: %v", request, err) // the page has no such entry
				continue
			}
			var text bytes.Buffer
			if _, err := text.ReadFrom(body); err != nil {
				t.Errorf("%s: %v", request, err)
			}
			_ = body.Close()
			s.in(t, request, text.Bytes())
			name := filepath.Base(request)
			if (name == "Membership" || name == "Authority") && !strings.Contains(text.String(), "BEGIN CERTIFICATE") {
				t.Errorf("%s: got %s, want a certificate, or this proves nothing", request, &text)
			}
		}
	}
}

func (s secrets) commands(t *testing.T, site *site, port int) {
	t.Helper()
	at := fmt.Sprintf("http://any.example:%d", port)
	for _, args := range [][]string{
		{"translate", "-f", site.dir}, {"translate", "-f", site.dir, "-o", "json"},
		{"translate", "-f", site.dir, "--status"},
		{"status"}, {"status", "-o", "json"}, {"clusters", "list", "-o", "json"}, {"clusters", "show"},
		{"explain", at + "/keyed", "-H", "Authorization: Bearer " + s[clientToken], "-o", "json"},
		{"explain", at + "/keyed", "-H", "Authorization: Bearer " + s[clientToken]},
		{"explain", at + "/keyed?api_key=open", "-H", "X-Api-Key: open", "-o", "json"},
		{"explain", at + "/redirected"}, {"explain", at + "/rewritten"},
		{"debug", "store", "show", "HTTPRoute", "-o", "yaml"}, {"debug", "store", "show", "Secret", "-o", "yaml"},
		{"debug", "xds", "dump", "default/gw"},
	} {
		if args[0] != "translate" {
			args = append(args, "-f", site.dir, "--state", site.state)
		}
		out, err := penstock(t, args...)
		if err != nil && !errors.Is(err, exitCode(1)) {
			t.Errorf("penstock %q: %v", args, err)
		}
		s.in(t, strings.Join(args[:min(len(args), 4)], " "), []byte(out))
		if strings.Contains(args[1], "/keyed?") && !strings.Contains(out, "X-Api-Key=redacted: ") &&
			!strings.Contains(out, "x-api-key=redacted: ") {
			t.Errorf("got %s, want the rule for X-Api-Key, or this proves nothing", out)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := penstock(t, "diff", empty, site.dir) // exits with 1, because the folders differ
	if !strings.Contains(out, "certificate_chain") {
		t.Errorf("the difference: got %s, want a certificate, or this proves nothing", out)
	}
	s.in(t, "diff", []byte(out))
}

// files checks readable files. State files have mode 0600, their folder 0700.
func (s secrets) files(t *testing.T, state string, folders ...string) {
	t.Helper()
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state folder: got %v, %v, want 0700", info.Mode(), err)
	}
	for _, folder := range append(folders, state) {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			shared := slices.Contains([]string{"access.log", "trace", "status.json"}, filepath.Base(path))
			if info.Mode().Perm() == 0o600 && !shared {
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil {
				s.in(t, path, text)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(app.Socket(state)); err == nil {
		t.Error("the socket is left")
	}
}
