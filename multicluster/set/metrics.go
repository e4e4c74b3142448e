package set

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

var (
	membersDesc = prometheus.NewDesc("penstock_clusterset_members",
		"Members of the ClusterSet by state: Ready, Draining, Stale (connected and silent), Unreachable.",
		[]string{"state"}, nil)
	connectedDesc = prometheus.NewDesc("penstock_clusterset_member_connected",
		"1 if this process is connected to the member.", []string{"member"}, nil)
	ageDesc = prometheus.NewDesc("penstock_clusterset_member_age_seconds",
		"Time since the last update of the member arrived. A member sends one every 5 seconds.", []string{"member"},
		nil)
	deniedDesc = prometheus.NewDesc("penstock_clusterset_member_denied",
		"1 if the connection to the member is denied here, or if its last update has no effect.", []string{"member"},
		nil)
	exportsDesc = prometheus.NewDesc("penstock_clusterset_exports",
		"Pools of this cluster that are exported to the member, by state: Imported, or the reason of the "+
			"condition Exported.", []string{"member", "state"}, nil)
	importsDesc = prometheus.NewDesc("penstock_clusterset_imports",
		"Pools that the member exports to this cluster, by state: Imported, Draining, or why they are not imported.",
		[]string{"member", "state"}, nil)
	drainingDesc = prometheus.NewDesc("penstock_clusterset_draining",
		"1 if this cluster drains: members send it no new request.", nil, nil)
	inFlightDesc = prometheus.NewDesc("penstock_clusterset_requests",
		"Requests of other clusters in flight that this process's picker counts.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Set) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, connectedDesc, ageDesc, deniedDesc, exportsDesc, importsDesc,
		drainingDesc, inFlightDesc} {
		out <- d
	}
}

// known maps unknown states to one value, because a member may report any reason.
func known(state string) string {
	switch state {
	case Imported, Draining, pending, export.NotSupportedReason, export.NoAddressReason, export.MemberUnreachableReason,
		imports.NotAllowedReason, imports.NamespaceNotFoundReason, imports.ConflictReason:
		return state
	}
	return "Other"
}

// Collect implements prometheus.Collector. Without a ClusterSet it returns no series.
func (s *Set) Collect(out chan<- prometheus.Metric) {
	status := s.Status(nil)
	if status.Cluster == "" {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	oneIf := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	states := map[registry.State]int{registry.Ready: 0, registry.Draining: 0, registry.Stale: 0,
		registry.Unreachable: 0}
	for _, m := range status.Members {
		states[m.State]++
		gauge(connectedDesc, oneIf(m.Connected), m.Name)
		gauge(deniedDesc, oneIf(m.Denied), m.Name)
		if !m.Updated.IsZero() {
			gauge(ageDesc, max(time.Since(m.Updated).Seconds(), 0), m.Name)
		}
		for desc, list := range map[*prometheus.Desc][]PoolStatus{exportsDesc: m.Exports, importsDesc: m.Imports} {
			by := map[string]int{Imported: 0}
			for _, p := range list {
				by[known(p.State)]++
			}
			for state, n := range by {
				gauge(desc, float64(n), m.Name, state)
			}
		}
	}
	for state, n := range states {
		gauge(membersDesc, float64(n), string(state))
	}
	gauge(drainingDesc, oneIf(status.Draining))
	gauge(inFlightDesc, float64(status.InFlight))
}
