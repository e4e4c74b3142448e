// Package commandline builds the command line of an engine's server from the Engine object and the
// variables of a ModelDeployment. Package discovery/engine/deployment calls it.
//
// A template (template.go) is a list of texts in an Engine, one for each argument. Expand replaces
// each ${path} in a text by a value once: a value is never read as a template, and a text stays one
// argument. Variables (variables.go) become further arguments, --name and value, after the JSON
// Schema of the engine (schema.go) has validated them.
//
// Invariants: no value of a user changes the number or the order of other arguments. A schema that
// refers to a file or a URL is invalid. A mistake becomes a finding with the field, the violated
// rule and, for a misspelled name, the nearest name.
//
// Tests: go test ./discovery/engine/commandline, also with -fuzz FuzzTemplate and -fuzz FuzzSchema.
package commandline
