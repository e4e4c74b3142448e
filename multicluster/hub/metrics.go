package hub

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/hub/decide"
	"github.com/penstock-project/penstock/multicluster/imports"
)

var (
	leadingDesc = prometheus.NewDesc("penstock_hub_leading",
		"1 in the penstock hub that reads and writes the members. Of all hubs of a management cluster one has it; "+
			"the others have no series of members.", nil, nil)
	connectedDesc = prometheus.NewDesc("penstock_hub_member_connected",
		"1 if the member's API server answers the hub.", []string{"member"}, nil)
	ageDesc = prometheus.NewDesc("penstock_hub_member_age_seconds",
		"Time since the member's API server answered last. The hub asks it every 5 seconds.", []string{"member"}, nil)
	problemsDesc = prometheus.NewDesc("penstock_hub_problems",
		"Problems of the ClusterSet and its members that /members of the hub shows.", nil, nil)
	exportsDesc = prometheus.NewDesc("penstock_hub_exports",
		"Pools of the member that are to be exported, by state: Exported, Pending (to be written), or the reason of "+
			"the condition Exported.", []string{"member", "state"}, nil)
	importsDesc = prometheus.NewDesc("penstock_hub_imports",
		"Exports of others to the member, by state: Imported, Pending (to be written), or why they are not imported.",
		[]string{"member", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (h *Hub) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leadingDesc, connectedDesc, ageDesc, problemsDesc, exportsDesc, importsDesc} {
		out <- d
	}
}

func known(state string) string {
	switch state {
	case decide.Imported, decide.Pending, export.ExportedReason, export.NotSupportedReason, export.NoAddressReason,
		export.MemberUnreachableReason, imports.NotAllowedReason, imports.NamespaceNotFoundReason,
		imports.ConflictReason:
		return state
	}
	return "Other"
}

// Collect implements prometheus.Collector.
func (h *Hub) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	oneIf := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	status := h.status()
	gauge(leadingDesc, oneIf(status.Leading))
	gauge(problemsDesc, float64(len(status.Problems))+oneIf(status.Problem != nil))
	for _, m := range status.Members {
		gauge(connectedDesc, oneIf(m.Connected), m.Name)
		if !m.Contacted.IsZero() {
			gauge(ageDesc, max(time.Since(m.Contacted).Seconds(), 0), m.Name)
		}
		for _, side := range []struct {
			desc *prometheus.Desc
			by   map[string]int
			good string
		}{{exportsDesc, m.Exports, export.ExportedReason}, {importsDesc, m.Imports, decide.Imported}} {
			by := map[string]int{side.good: 0}
			for state, n := range side.by {
				by[known(state)] += n
			}
			for state, n := range by {
				gauge(side.desc, float64(n), m.Name, state)
			}
		}
	}
}
