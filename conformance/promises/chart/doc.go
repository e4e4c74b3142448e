// Package chart tests the Helm charts in manifests/charts: with any values they render valid
// objects without unknown fields. With default values Penstock's chart renders
// manifests/install/penstock.yaml. In a lab, the charts are installed and used, and
// Helm upgrades an earlier version to this one and rolls it back without a lost request. promtool
// tests the alerts and the queries of the dashboards.
//
// Tests: make helm, and go test ./promises/chart; `make golden` rewrites the file. In a lab: make
// test-lab. Upgrades: make test-upgrade. Alerts: make test-alerts.
package chart
