// Package catalog has the built-in Engines. Each is a YAML document in this folder. Package
// discovery/engine/deployment uses them.
//
// An Engine object of a user replaces the built-in Engine with the same name. The documents are
// read once, at the first call. A test checks each document against the CRD, and its templates.
//
// The folder schemas has JSON Schemas of engines' arguments. A script generates each from the
// engine's own argument parser. The first line of a schema names its script, and make test-engines
// runs the script again. An argument that the schema lacks is accepted with a warning. The engine
// sglang has no schema, so all its arguments cause a warning. No test starts sglang.
//
// Tests: go test ./discovery/engine/catalog
package catalog
