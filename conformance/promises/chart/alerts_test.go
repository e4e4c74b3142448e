//go:build prometheus

package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/monitoring"
)

// alertCase has two series of a metric in promtool's notation: one that fires an alert, and one
// that does not. The alert has labels, and its summary shows value.
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

type rulesTest struct {
	RuleFiles []string `json:"rule_files"`
	Interval  string   `json:"evaluation_interval"`
	Tests     []any    `json:"tests"`
}

// of adds a test of one alert. With these series, the alert must fire once for each element of
// fires.
func (f *rulesTest) of(name string, series []string, fires []any) {
	var inputs []any
	for _, text := range series {
		i := strings.LastIndex(text, " ")
		inputs = append(inputs, map[string]string{"series": text[:i], "values": text[i+1:]})
	}
	f.Tests = append(f.Tests, map[string]any{"interval": "1m", "input_series": inputs,
		"alert_rule_test": []any{map[string]any{"eval_time": "100m", "alertname": name, "exp_alerts": fires}}})
}

func (f *rulesTest) run(t *testing.T) {
	t.Helper()
	raw, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", file)
}

func rulesOfChart(t *testing.T) *rulesTest {
	t.Helper()
	rules, err := filepath.Abs(chartDir + "/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return &rulesTest{RuleFiles: []string{rules}, Interval: "1m"}
}

func expected(a monitoring.Alert, labels map[string]string, value string) any {
	all := map[string]string{"severity": a.Severity}
	summary := strings.ReplaceAll(a.Summary, "{{ $value }}", value)
	for name, value := range labels {
		all[name] = value
		summary = strings.ReplaceAll(summary, "{{ $labels."+name+" }}", value)
	}
	const docs = "https://github.com/penstock-project/penstock/blob/main/docs/"
	return map[string]any{"exp_labels": all,
		"exp_annotations": map[string]string{"summary": summary, "runbook_url": docs + a.Page}}
}

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

// Prometheus evaluates each rule of the chart. An alert must fire for a series with the problem,
// with a summary that names the problem, and must not fire for a series without it.
func TestAlerts_FireForTheirProblemAlone(t *testing.T) {
	f := rulesOfChart(t)
	promtool(t, "check", "rules", f.RuleFiles[0])
	for _, a := range monitoring.Alerts() {
		c, ok := alertCases[a.Name]
		if !ok {
			t.Errorf("%s has no case in this test", a.Name)
			continue
		}
		fires := expected(a, c.labels, c.value)
		if strings.Contains(fmt.Sprint(fires), "{{") {
			t.Errorf("%s: the summary names a label that the alert lacks: %v", a.Name, fires)
		}
		f.of(a.Name, []string{c.fires}, []any{fires})
		f.of(a.Name, []string{c.calm}, []any{})
	}
	f.run(t)
}

// A Prometheus often scrapes several installations, with several replicas each. An alert about an
// installation must join only the replicas of this installation.
func TestAlerts_JoinReplicasAndSeparateInstallations(t *testing.T) {
	const west = `,member="west"`
	at := func(metric, namespace, pod, more, values string) string {
		return fmt.Sprintf(`%s{namespace=%q,job="%s/penstock",instance=%q%s} %s`, metric, namespace, namespace, pod,
			more, values)
	}
	in := func(namespace string, more map[string]string) map[string]string {
		out := map[string]string{"namespace": namespace, "job": namespace + "/penstock"}
		maps.Copy(out, more)
		return out
	}
	f := rulesOfChart(t)
	for _, a := range monitoring.Alerts() {
		switch a.Name {
		case "PenstockNoLeader", "PenstockNoHubLeads":
			metric := map[string]string{"PenstockNoLeader": "penstock_leader",
				"PenstockNoHubLeads": "penstock_hub_leading"}[a.Name]
			one := []string{at(metric, "one", "a", "", "1x120"), at(metric, "one", "b", "", "0x120")}
			f.of(a.Name, append(one, at(metric, "two", "a", "", "1x120"), at(metric, "two", "b", "", "0x120")), []any{})
			f.of(a.Name, append(one, at(metric, "two", "a", "", "0x120"), at(metric, "two", "b", "", "0x120")),
				[]any{expected(a, in("two", nil), "0")})
			f.of(a.Name, append(one, at(metric, "two", "a", "", "1x120"), at(metric, "two", "b", "", "1x120")),
				[]any{expected(a, in("two", nil), "2")})
		case "PenstockClusterAway":
			const metric = "penstock_clusterset_member_connected"
			one := []string{at(metric, "one", "a", west, "1x120"), at(metric, "one", "b", west, "0x120")}
			f.of(a.Name, one, []any{})
			f.of(a.Name, append(one, at(metric, "two", "a", west, "0x120"), at(metric, "two", "b", west, "0x120")),
				[]any{expected(a, in("two", memberLabel), "0")})
		case "PenstockClusterDenied":
			const metric = "penstock_clusterset_member_denied"
			one := []string{at(metric, "one", "a", west, "1x120"), at(metric, "one", "b", west, "0x120")}
			f.of(a.Name, append(one, at(metric, "two", "a", west, "0x120")),
				[]any{expected(a, in("one", memberLabel), "1")})
		}
	}
	if len(f.Tests) != 9 {
		t.Errorf("tests: got %d, want 9", len(f.Tests))
	}
	f.run(t)
}

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
