// Package commandline makes the command line of an engine from its Engine object and the variables
// of a ModelDeployment. discovery/engine/deployment calls it.
//
// A template (template.go) is part of an Engine, which is parsed before users' values enter. Expand
// replaces ${path} in one text by a value from Paths, once: a value is never read as a template,
// and a text stays one argument. Variables (variables.go) become further arguments, --name and
// value, after the JSON Schema of the engine (schema.go) has validated them.
//
// Invariants: no value of a user changes the number or the places of other arguments. A schema is
// read from its own text alone: a reference to a file or a URL is invalid. A mistake is a finding
// with field, rule and, for a misspelled name, the nearest name.
//
// Tests: go test ./discovery/engine/commandline, also with -fuzz FuzzTemplate and -fuzz FuzzSchema.
package commandline
