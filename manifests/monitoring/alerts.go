package monitoring

import (
	"bytes"

	"sigs.k8s.io/yaml"
)

const pages = "https://github.com/penstock-project/penstock/blob/main/docs/"

// A critical alert wakes a person. A warning waits until morning.
const (
	critical = "critical"
	warning  = "warning"
)

// Alert is one alert rule.
type Alert struct {
	Name     string
	Expr     string // PromQL
	For      string // how long Expr holds before the alert fires; "": at once
	Severity string
	Summary  string // one sentence, with Prometheus' {{ $labels.NAME }}
	Page     string // page of docs, with an anchor
}

// installation lists the labels that processes of one installation share: Prometheus sets namespace
// and job for a PodMonitor, and an operator of several clusters sets cluster.
const installation = "cluster, namespace, job"

// Alerts returns the alert rules, the most urgent first.
func Alerts() []Alert {
	const what = "metrics-and-alerts.md#when-it-goes-wrong"
	return []Alert{
		{"PenstockNoServer", `penstock_picker_serving_endpoints == 0`, "10s", critical,
			"Pool {{ $labels.pool }} has no model server that serves.", what},
		{"PenstockRequestsDeclined",
			`sum by (pool, result) (rate(penstock_picker_picks_total{` +
				`result!~"picked|spilled|relayed|relay_open|models|cluster"}[5m])) > 0`,
			"5m", critical, "Requests to pool {{ $labels.pool }} are answered {{ $labels.result }}.",
			"why-errors.md"},
		{"PenstockEnvoyRejects", `penstock_xds_streams_rejecting > 0`, "1m", critical,
			"{{ $value }} Envoys reject a resource and keep its last good version.", what},
		{"PenstockNoLeader", `sum by (` + installation + `) (penstock_leader) != 1`, "5m", critical,
			"{{ $value }} processes write statuses, and one must.", what},
		{"PenstockNoEvents", `penstock_lagging == 1`, "5m", critical,
			"{{ $labels.instance }} receives no events from the API server.", what},
		{"PenstockServersSilent", `penstock_picker_silent_endpoints > 0`, "1m", warning,
			"{{ $value }} servers of pool {{ $labels.pool }} accept requests and send no token.", "why-slow.md"},
		{"PenstockPoolSaturated", `penstock_picker_saturation_ratio >= 1`, "5m", warning,
			"Requests wait at every server of pool {{ $labels.pool }}.", what},
		{"PenstockBlindPicks", `penstock_picker_endpoints{state="stale"} > 0`, "5m", warning,
			"The load of {{ $value }} servers of pool {{ $labels.pool }} is unknown.", what},
		{"PenstockUploadsRejected", `rate(penstock_picker_rejected_uploads_total[5m]) > 0`, "5m", warning,
			"Envoys of {{ $labels.gateway }} hold too many large bodies.", what},
		{"PenstockConfigurationInvalid", `penstock_findings{severity="error"} > 0`, "5m", warning,
			"{{ $value }} errors in the configuration: penstock status lists them.", what},
		{"PenstockEnvoyBehind", `penstock_xds_streams_behind > 0`, "5m", warning,
			"{{ $value }} Envoys lack a part of the configuration.", what},
		{"PenstockCertificateEnds", `penstock_certificates_ending > 0`, "1h", warning,
			"{{ $value }} certificates are in state {{ $labels.state }}.", "credentials.md"},
		{"PenstockClusterAway", `max by (` + installation + `, member) (penstock_clusterset_member_connected) == 0`,
			"5m", warning,
			"Cluster {{ $labels.member }} is not connected. Its exports stay in use.", what},
		{"PenstockClusterDenied",
			`max by (` + installation + `, member) (penstock_clusterset_member_denied) == 1`, "1m", warning,
			"Updates of cluster {{ $labels.member }} have no effect.", what},
		{"PenstockPoolNotImported", `penstock_clusterset_exports{state!="Imported"} > 0`, "10m", warning,
			"Cluster {{ $labels.member }} does not import {{ $value }} pools: {{ $labels.state }}.", what},
		{"PenstockHubMemberAway", `penstock_hub_member_connected == 0`, "5m", warning,
			"The hub does not reach cluster {{ $labels.member }}. Its imports stay.", what},
		{"PenstockNoHubLeads", `sum by (` + installation + `) (penstock_hub_leading) != 1`, "5m", critical,
			"{{ $value }} hubs lead, and one must.", what},
		{"PenstockBug", `increase(penstock_panics_total[1h]) > 0`, "", warning,
			"A panic harmed one object or request ({{ $labels.part }}). Report the stack in the log.", what},
	}
}

type (
	ruleFile struct {
		Groups []ruleGroup `json:"groups"`
	}
	ruleGroup struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	rule struct {
		Alert       string            `json:"alert"`
		Expr        string            `json:"expr"`
		For         string            `json:"for,omitempty"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
)

// Rules returns the alerts as a file of rules for Prometheus, in YAML.
func Rules() []byte {
	group := ruleGroup{Name: "penstock"}
	for _, a := range Alerts() {
		group.Rules = append(group.Rules, rule{
			Alert: a.Name, Expr: a.Expr, For: a.For, Labels: map[string]string{"severity": a.Severity},
			Annotations: map[string]string{"summary": a.Summary, "runbook_url": pages + a.Page},
		})
	}
	text, err := yaml.Marshal(ruleFile{Groups: []ruleGroup{group}})
	if err != nil {
		panic(err) // cannot fail: plain structs of strings
	}
	return append([]byte("# Alerts of Penstock for Prometheus: penstock metrics alerts prints them.\n"),
		bytes.TrimLeft(text, "\n")...)
}
