package monitoring

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The chart has a copy of both, because Helm reads files of a chart alone.
func TestGolden_ChartHasAlertsAndDashboards(t *testing.T) {
	dir := "../charts/penstock/monitoring"
	want := map[string][]byte{"alerts.yaml": Rules()}
	for _, d := range Dashboards() {
		want[d.Name+".json"] = d.JSON()
	}
	if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	found, err := os.ReadDir(dir)
	if err != nil || len(found) != len(want) {
		t.Errorf("%s has %d files, want %d: %v", dir, len(found), len(want), err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is stale: run make golden (%v)", name, err)
		}
	}
}

// An alert at 3 a.m. leads to what to do.
func TestAlerts_LeadToAPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics-and-alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Alerts() {
		file, anchor, _ := strings.Cut(a.Page, "#")
		text, err := os.ReadFile(filepath.Join("../../docs", file))
		if err != nil {
			t.Errorf("page of alert %s: %v, want one", a.Name, err)
			continue
		}
		heading := "\n## " + strings.ReplaceAll(anchor, "-", " ") + "\n"
		if anchor != "" && !strings.Contains(strings.ToLower(string(text)), heading) {
			t.Errorf("alert %s: %s has no section %s", a.Name, file, anchor)
		}
		if !strings.Contains(string(page), "`"+a.Name+"`") {
			t.Errorf("metrics-and-alerts.md does not state what to do about %s", a.Name)
		}
		if a.Summary == "" || a.Severity == "" {
			t.Errorf("%s has no summary or severity", a.Name)
		}
	}
}

// Metrics that do not exist show nothing and alert never.
func TestMonitoring_MetricsExist(t *testing.T) {
	reference, err := filepath.Glob("../../docs/reference/metrics.md")
	if err != nil || len(reference) == 0 {
		t.Fatalf("no page of metrics: %v", err)
	}
	known, err := os.ReadFile(reference[0])
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.Write(Rules())
	for _, d := range Dashboards() {
		text.Write(d.JSON())
	}
	names := regexp.MustCompile(`penstock_[a-z_]+`).FindAllString(text.String(), -1)
	if len(names) < 40 {
		t.Fatalf("%d names, want at least 40: this test looks in the wrong place", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(known), "`"+strings.TrimSuffix(name, "_bucket")+"`") {
			t.Errorf("no metric is named %s", name)
		}
	}
}
