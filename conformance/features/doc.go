// Package features has one test file for each feature that a user can configure, and one YAML file
// of the same name. Each test drives the built binary (penstock up), the real Envoy, and model
// servers as processes (penstock sim).
//
//	go test ./features -run Spill
//
// A test does what a user does: write the file, send requests, check which servers respond, and ask
// penstock explain. In the YAML, ${gateway} is the port of the Gateway, and ${NAME} the port of the
// model server NAME, which a test starts by calling server. If a document follows a line --- #
// NAME, it is written only after a call of with("NAME").
//
// The tests share the files rig_*_test.go: rig_test.go builds the binary once and starts processes,
// rig_fixture_test.go writes the YAML, rig_requests_test.go sends requests. Servers that penstock
// sim cannot play run in the test: rig_cluster_test.go plays clusters of an import, whose pickers
// decline when a test wants it, and rig_picker_test.go plays other pickers.
package features
