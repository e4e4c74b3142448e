package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestDocs_EveryReasonHasACauseAndACure(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "why-errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	envoys, err := os.ReadFile(filepath.Join(root, "translator", "envoy", "localreply.go"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := []string{"invalid_body", "invalid_model", "body_too_large", "picker_overloaded", "too_many_uploads",
		"gateway_loop", "model_not_found", "unavailable"}
	for _, r := range pickResults(t) {
		if r.status >= "400" {
			reasons = append(reasons, r.value)
		}
	}
	for _, m := range regexp.MustCompile(`", "([a-z_]+)",`).FindAllStringSubmatch(string(envoys), -1) {
		reasons = append(reasons, m[1])
	}
	if len(reasons) < 25 {
		t.Fatalf("got reasons %v, want at least 25", reasons)
	}
	for _, reason := range reasons {
		row := regexp.MustCompile("(?m)^\\|.*`" + reason + "` \\|[^|]+\\|[^|]+\\|$")
		if !row.Match(page) {
			t.Errorf("docs/why-errors.md: got no row with cause and cure for %q", reason)
		}
	}
}
