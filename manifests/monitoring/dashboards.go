package monitoring

import (
	"encoding/json"
	"fmt"
)

const (
	number    = "short"
	perSecond = "reqps"
	seconds   = "s"
	ratio     = "percentunit"
	byteRate  = "Bps"
)

// Panel is a diagram of a dashboard.
type Panel struct {
	Title, Unit string
	Queries     []Query
}

// Query is one family of lines. Expr is PromQL; Legend is the text of each line, and may contain
// {{LABEL}}.
type Query struct{ Expr, Legend string }

// Dashboard is one page of Grafana. Variable is a label that filters the page, and Metric is a
// metric with the label; empty: no filter.
type Dashboard struct {
	Name, Title      string
	Variable, Metric string
	Panels           []Panel
}

func one(title, unit, expr, legend string) Panel { return Panel{title, unit, []Query{{expr, legend}}} }

func quantiles(title, metric, by string) Panel {
	q := func(p string) Query {
		return Query{fmt.Sprintf("histogram_quantile(%s, sum by (le, %s) (rate(%s_bucket[5m])))", p, by, metric),
			"p" + p[2:] + " {{" + by + "}}"}
	}
	return Panel{title, seconds, []Query{q("0.50"), q("0.99")}}
}

// Dashboards returns the dashboards.
func Dashboards() []Dashboard {
	const pool, gateway = `{pool=~"$pool"}`, `{import=~"$import"}`
	return []Dashboard{
		{"penstock-pools", "Penstock: pools", "pool", "penstock_picker_serving_endpoints", []Panel{
			one("Servers that serve", number, `max by (pool) (penstock_picker_serving_endpoints`+pool+`)`, "{{pool}}"),
			one("Picks", perSecond, `sum by (pool, result) (rate(penstock_picker_picks_total`+pool+`[5m]))`,
				"{{pool}} {{result}}"),
			one("Saturation", ratio, `max by (pool) (penstock_picker_saturation_ratio`+pool+`)`, "{{pool}}"),
			one("Requests in flight", number, `sum by (pool) (penstock_picker_in_flight_requests`+pool+`)`, "{{pool}}"),
			one("Requests that wait at servers", number, `max by (pool) (penstock_picker_queue_requests`+pool+`)`,
				"{{pool}}"),
			one("Requests that flow control holds", number,
				`sum by (pool, priority) (penstock_picker_flow_requests`+pool+`)`, "{{pool}} priority {{priority}}"),
			one("Mean time to the first byte", seconds,
				`sum by (pool, model) (rate(penstock_picker_model_first_byte_seconds_total`+pool+
					`[5m])) / sum by (pool, model) `+
					`(rate(penstock_picker_model_requests_total{pool=~"$pool",outcome="served"}[5m]))`,
				"{{pool}} {{model}}"),
			one("Share of prompts that was cached", ratio,
				`sum by (pool) (rate(penstock_picker_model_prompt_tokens_total{pool=~"$pool",type="cached"}[5m])) / sum by (pool) `+
					`(rate(penstock_picker_model_prompt_tokens_total{pool=~"$pool",type="input"}[5m]))`, "{{pool}}"),
			one("Requests that failed", perSecond,
				`sum by (pool, endpoint) (rate(penstock_picker_endpoint_requests_total{pool=~"$pool",outcome="failed"}[5m]))`,
				"{{endpoint}}"),
			quantiles("Time of a pick", "penstock_picker_pick_seconds", "pool"),
			one("Servers that are suspect", number, `max by (pool, kind) (penstock_picker_suspect_endpoints`+pool+`)`,
				"{{pool}} {{kind}}"),
			one("Servers by the state of their metrics", number,
				`max by (pool, state) (penstock_picker_endpoints`+pool+`)`, "{{pool}} {{state}}"),
		}},
		{"penstock-fleet", "Penstock: control plane and Envoys", "", "", []Panel{
			one("Connected Envoys", number, `sum(penstock_xds_streams)`, "Envoys"),
			one("Envoys that reject, or are behind", number, `sum(penstock_xds_streams_rejecting)`, "reject"),
			quantiles("From commit to ACK", "penstock_xds_commit_to_ack_seconds", "type"),
			quantiles("From a change to its commit", "penstock_change_seconds", "instance"),
			one("Bytes to Envoys", byteRate, `sum by (type) (rate(penstock_xds_bytes_total[5m]))`, "{{type}}"),
			one("NACKs", perSecond, `sum by (type) (rate(penstock_xds_nacks_total[5m]))`, "{{type}}"),
			one("Findings", number, `max by (severity) (penstock_findings)`, "{{severity}}"),
			one("Certificates that end", number, `max by (state) (penstock_certificates_ending)`, "{{state}}"),
			one("Memory", "bytes", `process_resident_memory_bytes{job=~".*penstock.*"}`, "{{instance}}"),
			one("CPU", number, `rate(process_cpu_seconds_total{job=~".*penstock.*"}[5m])`, "{{instance}}"),
		}},
		{"penstock-clusterset", "Penstock: cluster set", "import", "penstock_import_ended_requests_total", []Panel{
			one("Members", number, `max by (state) (penstock_clusterset_members)`, "{{state}}"),
			one("Age of the last update", seconds, `max by (member) (penstock_clusterset_member_age_seconds)`,
				"{{member}}"),
			one("Exports", number, `max by (member, state) (penstock_clusterset_exports)`, "{{member}} {{state}}"),
			one("Imports", number, `max by (member, state) (penstock_clusterset_imports)`, "{{member}} {{state}}"),
			one("Requests to clusters", perSecond,
				`sum by (import, cluster, outcome) (rate(penstock_import_ended_requests_total`+gateway+`[5m]))`,
				"{{import}} {{cluster}} {{outcome}}"),
			one("Wait that clusters report", seconds,
				`max by (import, cluster) (penstock_selection_reported_wait_seconds`+gateway+`)`,
				"{{import}} {{cluster}}"),
		}},
	}
}

// JSON returns the dashboard in the form that Grafana imports. The user chooses the data source at
// the import.
func (d Dashboard) JSON() []byte {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	variables := []object{{"name": "datasource", "type": "datasource", "query": "prometheus"}}
	if d.Variable != "" {
		variables = append(variables, object{
			"name": d.Variable, "type": "query", "datasource": source, "refresh": 2, "multi": true, "includeAll": true,
			"allValue": ".*", "current": object{"text": "All", "value": "$__all"},
			"query": fmt.Sprintf("label_values(%s, %s)", d.Metric, d.Variable),
		})
	}
	var panels []object
	for i, p := range d.Panels {
		var targets []object
		for j, q := range p.Queries {
			targets = append(targets, object{"refId": string(rune('A' + j)), "expr": q.Expr, "legendFormat": q.Legend,
				"datasource": source})
		}
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": p.Title, "datasource": source, "targets": targets,
			"gridPos":     object{"x": i % 2 * 12, "y": i / 2 * 8, "w": 12, "h": 8},
			"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0}, "overrides": []any{}},
		})
	}
	text, err := json.MarshalIndent(object{
		"uid": d.Name, "title": d.Title, "tags": []string{"penstock"}, "schemaVersion": 39, "refresh": "30s",
		"time": object{"from": "now-1h", "to": "now"}, "templating": object{"list": variables}, "panels": panels,
	}, "", " ")
	if err != nil {
		panic(err) // cannot fail: plain maps
	}
	return append(text, '\n')
}
