// Package chart tests the Helm charts in manifests/charts with the Helm that conformance/tools/helm
// pins. helm lint accepts them, and with any values they render valid objects without unknown
// fields. With default values Penstock's chart renders manifests/install/penstock.yaml, for
// installation without Helm. In a lab, this chart installs, upgrades and uninstalls Penstock. The
// picker's chart installs an endpoint picker, which picks for a Gateway. The external chart
// installs a processor, a router, a token store and workers, which answer.
//
// There, the API server also accepts each object in a dry run, and the commands of penstock combine
// the answers of both replicas. Helm upgrades an earlier version to this one and rolls it back, and
// no request is lost. promtool tests the alerts and the queries of the dashboards.
//
// Tests: make helm, and go test ./promises/chart; `make golden` rewrites the file. In a lab: make
// test-lab, or go test -tags lab ./promises/chart. Upgrades: make test-upgrade. Alerts: make
// test-alerts.
package chart
