//go:build prometheus

package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/monitoring"
)

// alertCase has a series, as promtool writes it, that fires an alert, and one of the same metric
// that does not. The labels are the alert's; value is what its summary shows.
type alertCase struct {
	fires, calm string
	labels      map[string]string
	value       string
}

var (
	poolLabel     = map[string]string{"pool": "team/qwen"}
	memberLabel   = map[string]string{"member": "west"}
	instanceLabel = map[string]string{"instance": "a:9090"}
)

var alertCases = map[string]alertCase{
	"PenstockNoServer": {`penstock_picker_serving_endpoints{pool="team/qwen"} 0x120`,
		`penstock_picker_serving_endpoints{pool="team/qwen"} 1x120`, poolLabel, "0"},
	"PenstockRequestsDeclined": {`penstock_picker_picks_total{pool="team/qwen",result="saturated"} 0+60x120`,
		`penstock_picker_picks_total{pool="team/qwen",result="picked"} 0+60x120`,
		map[string]string{"pool": "team/qwen", "result": "saturated"}, "1"},
	"PenstockEnvoyRejects": {`penstock_xds_streams_rejecting{instance="a:9090"} 2x120`,
		`penstock_xds_streams_rejecting{instance="a:9090"} 0x120`, instanceLabel, "2"},
	"PenstockNoLeader": {`penstock_leader{instance="a:9090"} 0x120`, `penstock_leader{instance="a:9090"} 1x120`, nil,
		"0"},
	"PenstockNoEvents": {`penstock_lagging{instance="a:9090"} 1x120`, `penstock_lagging{instance="a:9090"} 0x120`,
		instanceLabel, "1"},
	"PenstockServersSilent": {`penstock_picker_silent_endpoints{pool="team/qwen"} 2x120`,
		`penstock_picker_silent_endpoints{pool="team/qwen"} 0x120`, poolLabel, "2"},
	"PenstockPoolSaturated": {`penstock_picker_saturation_ratio{pool="team/qwen"} 1x120`,
		`penstock_picker_saturation_ratio{pool="team/qwen"} 0.5x120`, poolLabel, "1"},
	"PenstockBlindPicks": {`penstock_picker_endpoints{pool="team/qwen",state="stale"} 2x120`,
		`penstock_picker_endpoints{pool="team/qwen",state="fresh"} 2x120`,
		map[string]string{"pool": "team/qwen", "state": "stale"}, "2"},
	"PenstockUploadsRejected": {`penstock_picker_rejected_uploads_total{gateway="team/gw"} 0+60x120`,
		`penstock_picker_rejected_uploads_total{gateway="team/gw"} 7x120`,
		map[string]string{"gateway": "team/gw"}, "1"},
	"PenstockConfigurationInvalid": {`penstock_findings{severity="error"} 2x120`,
		`penstock_findings{severity="info"} 2x120`, nil, "2"},
	"PenstockEnvoyBehind": {`penstock_xds_streams_behind{instance="a:9090"} 2x120`,
		`penstock_xds_streams_behind{instance="a:9090"} 0x120`, instanceLabel, "2"},
	"PenstockCertificateEnds": {`penstock_certificates_ending{state="expired"} 2x120`,
		`penstock_certificates_ending{state="expired"} 0x120`, map[string]string{"state": "expired"}, "2"},
	"PenstockClusterAway": {`penstock_clusterset_member_connected{member="west"} 0x120`,
		`penstock_clusterset_member_connected{member="west"} 1x120`, memberLabel, "0"},
	"PenstockClusterDenied": {`penstock_clusterset_member_denied{member="west",instance="a:9090"} 1x120`,
		`penstock_clusterset_member_denied{member="west",instance="a:9090"} 0x120`, memberLabel, "1"},
	"PenstockPoolNotImported": {`penstock_clusterset_exports{member="west",state="Denied"} 2x120`,
		`penstock_clusterset_exports{member="west",state="Imported"} 2x120`,
		map[string]string{"member": "west", "state": "Denied"}, "2"},
	"PenstockHubMemberAway": {`penstock_hub_member_connected{member="west"} 0x120`,
		`penstock_hub_member_connected{member="west"} 1x120`, memberLabel, "0"},
	"PenstockNoHubLeads": {`penstock_hub_leading{instance="a:9090"} 0x120`,
		`penstock_hub_leading{instance="a:9090"} 1x120`, nil, "0"},
	"PenstockBug": {`penstock_panics_total{part="graph"} 0+1x120`, `penstock_panics_total{part="graph"} 3x120`,
		map[string]string{"part": "graph"}, "60"},
}

// program returns a program of Prometheus, which conformance/tools/prometheus.sh fetches.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../../.tools/bin/" + name)
	if own := os.Getenv(strings.ToUpper(name)); own != "" {
		path = own
	}
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("no %s: run conformance/tools/prometheus.sh, or set $%s (%v)", name, strings.ToUpper(name), err)
	}
	return path
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program(t, "promtool"), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Prometheus evaluates each rule of the chart: it fires for a series with the problem, with a
// summary that names it, and not for one without.
func TestAlerts_FireForTheirProblemAlone(t *testing.T) {
	rules, err := filepath.Abs(chartDir + "/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", rules)
	var tests []any
	for _, a := range monitoring.Alerts() {
		c, ok := alertCases[a.Name]
		if !ok {
			t.Errorf("%s has no case in this test", a.Name)
			continue
		}
		labels := map[string]string{"severity": a.Severity}
		summary := strings.ReplaceAll(a.Summary, "{{ $value }}", c.value)
		for name, value := range c.labels {
			labels[name] = value
			summary = strings.ReplaceAll(summary, "{{ $labels."+name+" }}", value)
		}
		if strings.Contains(summary, "{{") {
			t.Errorf("%s: the summary names a label that the alert lacks: %s", a.Name, summary)
		}
		const docs = "https://github.com/penstock-project/penstock/blob/main/docs/"
		for _, firing := range []bool{true, false} {
			text, expected := c.calm, []any{}
			if firing {
				text = c.fires
				expected = append(expected, map[string]any{"exp_labels": labels,
					"exp_annotations": map[string]string{"summary": summary, "runbook_url": docs + a.Page}})
			}
			i := strings.LastIndex(text, " ")
			tests = append(tests, map[string]any{"interval": "1m",
				"input_series": []any{map[string]string{"series": text[:i], "values": text[i+1:]}},
				"alert_rule_test": []any{map[string]any{"eval_time": "100m", "alertname": a.Name,
					"exp_alerts": expected}}})
		}
	}
	raw, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", file)
}

// Prometheus parses each query of the dashboards, with a value for the variables of Grafana.
func TestDashboards_QueriesParse(t *testing.T) {
	var rules []any
	for _, d := range monitoring.Dashboards() {
		var value any
		if err := json.Unmarshal(d.JSON(), &value); err != nil {
			t.Fatal(err)
		}
		before := len(rules)
		each(value, func(query string) {
			query = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h").Replace(query)
			rules = append(rules, map[string]any{"record": fmt.Sprintf("query:%d", len(rules)), "expr": query})
		})
		if len(rules) == before {
			t.Errorf("dashboard %s has no query", d.Name)
		}
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
	if bytes.Count(raw, []byte("expr:")) < 20 {
		t.Errorf("%d queries are found, want at least 20", bytes.Count(raw, []byte("expr:")))
	}
}

// each calls f with each query in a decoded dashboard.
func each(value any, f func(query string)) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			each(inner, f)
		}
	case map[string]any:
		for key, inner := range v {
			if query, ok := inner.(string); ok && key == "expr" {
				f(query)
			}
			each(inner, f)
		}
	}
}
