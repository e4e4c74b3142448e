// Package catalog has the built-in Engines, as the documents of this folder. discovery/engine/
// deployment reads them.
//
// An Engine object of a user replaces the built-in Engine of its name. Documents are read once, at
// the first call; a test checks each against the CRD and as a template.
//
// A schema in the folder schemas is generated from the engine's own parser of arguments, by the
// script that its first line names. make test-engines runs the script again. Other arguments pass
// with a warning, for sglang all of them: it has no schema, and no test starts it.
//
// Tests: go test ./discovery/engine/catalog
package catalog
