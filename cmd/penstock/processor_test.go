package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProcessor_InvalidEnvironmentIsNamed(t *testing.T) {
	for _, tt := range []struct{ url, use, router, want string }{
		{"http://processor", "", "", ""}, {"https://processor:8443/v1/process", "1", "false", ""},
		{"", "false", "true", ""}, {"nonsense", "false", "", ""},
		{"processor:8080", "", "", `EXTERNAL_LLM_PROCESSOR_ENDPOINT="processor:8080": write http://HOST:PORT`},
		{"http://u@h", "", "", "write http://HOST:PORT"}, {"http://a b", "", "", "write http://HOST:PORT"},
		{"", "true", "", "USE_EXTERNAL_LLM_PROCESSOR=true: it needs EXTERNAL_LLM_PROCESSOR_ENDPOINT"},
		{"http://p", "", "maybe", `USE_EXTERNAL_LLM_ROUTER="maybe": write true or false`},
	} {
		t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", tt.url)
		t.Setenv("USE_EXTERNAL_LLM_PROCESSOR", tt.use)
		t.Setenv("USE_EXTERNAL_LLM_ROUTER", tt.router)
		if _, err := defaultProcessor(); (err != nil) != (tt.want != "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt, err, tt.want)
		}
	}
}

func TestProcessor_EnvironmentCountsOffline(t *testing.T) {
	dir := t.TempDir()
	files := chatFiles(freePort(t), "127.0.0.1:9")
	files["policy.yaml"] = pickerYAML("{strategy: round-robin}")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for url, reads := range map[string]bool{"": false, "http://127.0.0.1:9": true} {
		t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", url)
		var out, complaints strings.Builder
		if err := runCommand([]string{"translate", "-f", dir}, &out, &complaints); err != nil ||
			strings.Contains(out.String(), "BUFFERED") != reads {
			t.Errorf("with %q: got %v %s, and bodies read: %t, want %t", url, err, complaints.String(), !reads, reads)
		}
	}
	t.Setenv("EXTERNAL_LLM_PROCESSOR_ENDPOINT", "processor:8080")
	for _, args := range [][]string{{"translate", "-f", dir}, {"diff", dir, dir},
		{"explain", "-f", dir, "http://localhost/"}} {
		var complaints strings.Builder
		if err := runCommand(args, io.Discard, &complaints); err == nil ||
			!strings.Contains(fmt.Sprint(err, complaints.String()), "write http://HOST:PORT") {
			t.Errorf("%v: got %v %s, want to write http://HOST:PORT", args, err, complaints.String())
		}
	}
}

func pickerYAML(picker string) string {
	return "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: " +
		"chat}, picker: " + picker + "}\n"
}
