package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// errorRow is a row of REFERENCE.md's tables of results and reasons: a code, then a status of 400
// or more.
var errorRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:[45][0-9][0-9]|other [45]xx)")

func TestDocs_EveryReasonHasACauseAndACure(t *testing.T) {
	reference, err := os.ReadFile(filepath.Join(root, "REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "why-errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(reference), "## Results of picks")
	section, _, _ = strings.Cut(section, "\n## ")
	// in its prose
	reasons := []string{"invalid_body", "invalid_model", "body_too_large", "picker_overloaded", "too_many_uploads",
		"gateway_loop"}
	for _, row := range errorRow.FindAllStringSubmatch(section, -1) {
		reasons = append(reasons, row[1])
	}
	if len(reasons) < 20 {
		t.Fatalf("got reasons %v, want at least 20", reasons)
	}
	for _, reason := range reasons {
		row := regexp.MustCompile("(?m)^\\|.*`" + reason + "` \\|[^|]+\\|[^|]+\\|$")
		if !row.Match(page) {
			t.Errorf("docs/why-errors.md: got no row with cause and cure for %q", reason)
		}
	}
}

// alertMetric is the metric of an alert in docs/metrics-and-alerts.md.
var alertMetric = regexp.MustCompile(`expr:.*?(penstock_[a-z_]+)`)

// An alert on a metric that does not exist never fires.
func TestDocs_AlertsNameMetricsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics-and-alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := knownMetrics(t)
	alerts := alertMetric.FindAllStringSubmatch(string(page), -1)
	if len(alerts) < 10 {
		t.Fatalf("got %d alerts, want at least 10", len(alerts))
	}
	for _, alert := range alerts {
		if !slices.ContainsFunc(metrics, func(m metricRow) bool { return m.name == alert[1] }) {
			t.Errorf("docs/metrics-and-alerts.md: got an alert on %s, want a metric that exists", alert[1])
		}
	}
}
