//go:build lab

package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

const gatedPool = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: GATEWAY, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: chat, labels: {app: chat}}
spec: {servers: [{address: 127.0.0.1, ports: [SERVER]}]}
---
` + issuerPolicy + `---
`

const issuerPolicy = `apiVersion: penstock.dev/v1alpha1
kind: AccessPolicy
metadata: {namespace: default, name: own}
spec:
  targetRefs: [{kind: HTTPRoute, name: chat}]
  jwt:
    issuer: ISSUER
    audiences: [models]
    caCertificateRefs: [{name: issuer}]
    tokenSecretRef: {name: issuer}
`

// issuer starts an API server that does not listen on loopback, because on Kubernetes Penstock
// never fetches from loopback.
func issuer(t *testing.T) (s *server, token func(audience string) string) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			s = startAt(t, n.IP.String(), rand.Text()) // with a random token, because other machines may reach it
			break
		}
	}
	if s == nil {
		t.Skip("this machine has only loopback addresses")
	}
	s.create(t, "serviceaccounts",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: default, name: client}}")
	client, err := kubernetes.NewForConfig(s.rest)
	if err != nil {
		t.Fatal(err)
	}
	return s, func(audience string) string {
		t.Helper()
		got, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "client",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status.Token
	}
}

func manifest(t *testing.T, object map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *server) references(t *testing.T, token string) (ca, secret string) {
	meta := map[string]any{"namespace": "default", "name": "issuer"}
	return manifest(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
			"data": map[string]any{"ca.crt": string(s.ca)}}),
		manifest(t, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta,
			"stringData": map[string]any{"token": token}})
}

// Service account tokens open a pool for one audience. Discovery and keys come from the API server,
// which requires a token.
func TestJWT_ServiceAccountTokenOpensThePoolOfItsAudience(t *testing.T) {
	s, token := issuer(t)
	envoy, err := process.Envoy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENVOY", envoy)
	gateway, model := port(t), port(t)
	_, gatewayPort, _ := net.SplitHostPort(gateway)
	_, modelPort, _ := net.SplitHostPort(model)
	dir := processtest.ShortDir(t) // paths of sockets have a maximum length
	files := filepath.Join(dir, "config")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	ca, secret := s.references(t, token(s.rest.Host))
	objects := strings.NewReplacer("GATEWAY", gatewayPort, "SERVER", modelPort, "ISSUER", s.rest.Host).
		Replace(gatedPool)
	write(t, filepath.Join(files, "all.yaml"), []byte(objects+ca))
	launch(t, dir, "sim", "../../../bin/penstock", "sim", "--listen", model)
	launch(t, dir, "penstock", "../../../bin/penstock", "up", "-f", files, "--state", filepath.Join(dir, "state"))
	outcome := func(token, want string) {
		t.Helper()
		labtest.Until(t, "a request is answered "+want, func(ctx context.Context) error {
			if got := ask(ctx, "http://"+gateway, token); got != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		})
	}
	outcome(token("models"), "401 invalid_api_key") // the policy's Secret is missing
	write(t, filepath.Join(files, "secret.yaml"), []byte(secret))
	outcome(token("models"), "200 ")
	for name, denied := range map[string]string{"another audience": token("others"),
		"the API server": token(s.rest.Host), "no": ""} {
		if got := ask(t.Context(), "http://"+gateway, denied); got != "401 invalid_api_key" {
			t.Errorf("a token of %s: got %s, want 401", name, got)
		}
	}
}

func ask(ctx context.Context, url, token string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(`{"messages": [{"role": "user", "content": "hi"}]}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return err.Error()
	}
	_ = resp.Body.Close()
	return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("x-penstock-reason"))
}

func TestJWT_APIServerIsFetchedFromOnlyAsTheIssuer(t *testing.T) {
	s, token := issuer(t)
	s.install(t, "*")
	for _, o := range objects {
		if o.kind == "GatewayClass" || o.kind == "Gateway" {
			s.create(t, o.resource, o.text())
		}
	}
	s.create(t, "httproutes", "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n"+
		"metadata: {namespace: default, name: chat}\nspec: {parentRefs: [{name: gw}]}\n")
	ca, secret := s.references(t, token(s.rest.Host))
	s.create(t, "configmaps", ca)
	s.create(t, "secrets", secret)
	own := strings.ReplaceAll(issuerPolicy, "ISSUER", s.rest.Host)
	s.create(t, "accesspolicies", own)
	s.create(t, "accesspolicies", strings.NewReplacer("name: own", "name: other", "kind: HTTPRoute, name: chat",
		"kind: Gateway, name: gw", "issuer: "+s.rest.Host, "issuer: https://sso.example.com\n    jwks: {uri: \""+
			s.rest.Host+"/openid/v1/jwks\"}").Replace(own))
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	launch(t, dir, "penstock", "../../../bin/penstock", "serve", "--kubeconfig", s.kubeconfig(t), "--state", state,
		"--picker", "127.0.0.1:0", "--fetch-hosts", strings.TrimPrefix(s.rest.Host, "https://"))
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(state, "api.sock"))
	}}}
	const want = "which is not the issuer"
	labtest.Until(t, "the status has the problem of one policy", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock/status", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var doc struct {
			Findings []struct {
				Owner          struct{ Kind, Name string }
				Field, Problem string
			}
		}
		if err := json.Unmarshal(page, &doc); err != nil {
			return fmt.Errorf("%w: %s", err, page)
		}
		problems := map[string]string{}
		for _, f := range doc.Findings {
			if f.Owner.Kind == "AccessPolicy" && strings.HasPrefix(f.Field, "spec.jwt") {
				problems[f.Owner.Name] += f.Problem
			}
		}
		if !strings.Contains(problems["other"], want) || problems["own"] != "" ||
			!bytes.Contains(page, []byte(`"own"`)) {
			return fmt.Errorf(`problems: got %v, want %q for "other" and none for "own"; %s`, problems, want,
				page[:min(len(page), 3000)])
		}
		return nil
	})
}
