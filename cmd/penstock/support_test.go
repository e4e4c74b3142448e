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

// unpackSupport returns all text of an archive.
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

// An archive leaves the company: what users named is not in it, whatever page and key has it.
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
	if err := writeSupport(cmd, []running{runningAt(server.URL)}, out); err == nil {
		t.Error("a file that exists was replaced")
	}
}
