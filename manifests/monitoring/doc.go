// Package monitoring has the alerts and dashboards of Penstock's metrics, as Prometheus and Grafana
// read them. `penstock metrics` prints them, and the chart penstock has a copy
// (manifests/charts/penstock/monitoring). Every metric in an alert or a dashboard exists; every
// alert has a section in docs. Tests: go test ./manifests/monitoring
package monitoring
