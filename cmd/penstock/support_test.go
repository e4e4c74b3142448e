package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func unpackSupport(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("== " + header.Name + "\n")
		if _, err := io.Copy(&text, archive); err != nil {
			t.Fatal(err)
		}
	}
}

// The archive may be published, so it has no name or address that users chose.
func TestSupport_HasNoNamesAndAddresses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			_, _ = io.WriteString(w, "# TYPE penstock_picker_picks_total counter\n"+
				`penstock_picker_picks_total{pool="acme/secretproject",result="picked"} 7`+"\n"+
				`penstock_picker_endpoint_requests_total{endpoint="10.1.2.3:8000",outcome="served",pool="acme/secretproject"} 7`+"\n")
		case "/status":
			_, _ = io.WriteString(w, `{"objects":[{"kind":"InferencePool","namespace":"acme","name":"secretproject",
				"conditions":[{"type":"Accepted","status":"False","message":"Service epp of acme at gpu.acme.example is \"hunter2\", 10.1.2.3"}]}],
				"findings":[{"severity":"error","source":"/home/alice/chat.yaml:3","field":"spec.x","problem":"secretproject is wrong"}],
				"map":{"acme/secretproject":{"state":"stale"}}}`)
		default:
			_, _ = io.WriteString(w,
				`[{"pool":"acme/secretproject","endpoint":"[fd00::12]:8000","model":"llama-of-acme","cost":1.5}]`)
		}
	}))
	defer server.Close()
	out := filepath.Join(t.TempDir(), "support.tar.gz")
	cmd := newSupport()
	var printed bytes.Buffer
	cmd.SetOut(&printed)
	cmd.SetErr(io.Discard)
	cmd.SetContext(t.Context())
	if err := writeSupport(cmd, []running{runningAt(server.URL)}, out); err != nil {
		t.Fatal(err)
	}
	text := unpackSupport(t, out)
	for _, secret := range []string{"acme", "secretproject", "hunter2", "10.1.2.3", "fd00", "llama", "alice", "gpu."} {
		if strings.Contains(text, secret) {
			t.Errorf("the archive has %q, want it without:\n%s", secret, text)
		}
	}
	for _, kept := range []string{
		`"severity": "error"`, `"kind": "InferencePool"`, "penstock_picker_picks_total{pool=", `result="picked"} 7`,
		`"cost": 1.5`, `"state": "stale"`, "versions.txt",
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("the archive: got\n%s\nwant %q", text, kept)
		}
	}
	if !strings.Contains(printed.String(), "1/status.json") || !strings.Contains(printed.String(), "Read it before") {
		t.Errorf("it printed\n%s\nwant 1/status.json, and to read it before", &printed)
	}
	if err := writeSupport(cmd, []running{runningAt(server.URL)}, out); err == nil ||
		!strings.Contains(err.Error(), "--out "+out+": the file exists: remove it, or write --out") {
		t.Errorf("for a file that exists the error is %v, want to remove it or to write --out", err)
	}
}

// supportOf returns the archive's text for a process with pages. Other pages are null.
func supportOf(t *testing.T, pages map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := pages[r.URL.Path]
		if text == "" && r.URL.Path != "/metrics" {
			text = "null"
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	out := filepath.Join(t.TempDir(), "support.tar.gz")
	cmd := newSupport()
	cmd.SetOut(io.Discard)
	cmd.SetContext(t.Context())
	if err := writeSupport(cmd, []running{runningAt(server.URL)}, out); err != nil {
		t.Fatal(err)
	}
	return unpackSupport(t, out)
}

// The archive has no name that only a spec contains, because a finding may name it.
func TestSupport_ReplacesNamesThatOnlySpecsHave(t *testing.T) {
	text := supportOf(t, map[string]string{
		"/debug/store/HTTPRoute": `{"objects":[{"metadata":{"name":"chat","namespace":"default",
			"labels":{"acme-label":"acme-value","app.kubernetes.io/name":"acme-app"},"creationTimestamp":"2026-01-01T00:00:00Z"},
			"spec":{"hostnames":["acmelocal","*.acme-host"],"parentRefs":[{"name":"acme-gw","sectionName":"acme-section"}],
			"rules":[{"matches":[{"path":{"type":"PathPrefix","value":"/acme-path"},"method":"GET"}],
			"backendRefs":[{"name":"acme-billing","port":80},{"group":"acme.example","kind":"AcmeBilling","name":"Same"}],
			"filters":[{"expression":"request.model is one"}]}]}}]}`,
		"/debug/store/Gateway": `{"objects":[{"metadata":{"name":"gw"},"spec":{"listeners":[{"allowedRoutes":{
			"namespaces":{"from":"Selector","selector":{"matchLabels":{"acme-team":"acme-red"}}}}}]}}]}`,
		"/status": `{"findings":[{"severity":"error","problem":"Service default/acme-billing does not exist",
			"fix":"Gateway default/acme-gw has no listener acme-section for acmelocal acme-host and /acme-path: GET, name"},
			{"problem":"acme-label=acme-value acme-app, from Selector acme-team=acme-red, AcmeBilling Same of this request"}]}`,
	})
	if strings.Contains(strings.ToLower(text), "acme") || strings.Contains(text, "Same") {
		t.Errorf("the archive has names of specs:\n%s", text)
	}
	for _, kept := range []string{
		" does not exist", "Service default/name-", ": GET, name\"", "from Selector ", " of this request",
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("the archive: got\n%s\nwant %q", text, kept)
		}
	}
}

// Keys, times, durations and numbers stay, even if a pool's name equals a key.
func TestSupport_KeepsKeysAndTimes(t *testing.T) {
	text := supportOf(t, map[string]string{
		"/status": `{"objects":[{"kind":"InferencePool","name":"status","status":{"conditions":[{"status":"True",
			"message":"no listener of status since 2026-11-30T21:58:09Z"}]}}]}`,
		"/proxies":     `[{"connected":"2026-11-30T21:42:09.123456789+02:00","gateway":"default/gw","node":"default/gw"}]`,
		"/clusters":    `{"drainTime":"1m30s","cluster":"tokens","firstByte":"1.5ms","small":"1e-07","missing":{"prompt":"NoGateway"}}`,
		"/debug/picks": `{"picks":[{"tokens":7,"prompt":3,"pool":"default/prompt","omitted":{"over-load":2},"costs":{"prompt":1.5}}]}`,
		"/metrics":     `penstock_gate_errors_total{cause="other-cause"} 0` + "\n",
	})
	for _, kept := range []string{
		`{cause="other-cause"} 0`, `"status": {`, `"status": "True"`, `"tokens": 7`, `"prompt": 3`,
		`"prompt": 1.5`, `"over-load": 2`, `"drainTime": "1m30s"`,
		`"connected": "2026-11-30T21:42:09.123456789+02:00"`, `"firstByte": "1.5ms"`, `"small": "1e-07"`,
		`since 2026-11-30T21:58:09Z"`, `"missing": {`,
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("the archive: got\n%s\nwant %s", text, kept)
		}
	}
	for _, secret := range []string{`"name": "status"`, "of status", `"cluster": "tokens"`, `default/prompt`, `"prompt": "`} {
		if strings.Contains(text, secret) {
			t.Errorf("the archive has %s:\n%s", secret, text)
		}
	}
}
