// Package features has one test file for each feature that a user can configure, and one YAML file
// of the same name. Each test drives the built binary (penstock up), the real Envoy, and model
// servers as processes (penstock sim). In the YAML, ${gateway} is the port of the Gateway. ${NAME}
// is the port of the model server NAME, which a test starts by calling server(). A document after a
// line "--- # NAME" is written only after a call of with("NAME"). The tests share the files
// rig_*_test.go.
package features
