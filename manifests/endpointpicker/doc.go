// Package endpointpicker reads the EndpointPickerConfig of llm-d's router: the filters, scorers and
// picker of a scheduling profile, and for servers with roles a profile for each stage of a request
// (disagg.go). headers.go lists the headers that carry the chosen servers. Translation and
// discovery/file validate documents with it; package schedule implements the plugins.
//
// A plugin is a row of the table in plugins.go, with its parameters, a row in picker/schedule, and
// one in notes.go, which has its formula for the reference. upstream.go has the types of llm-d's
// router that work as another or have no effect. The reference lists both tables.
//
// Invariants:
//   - A Profile is complete: defaults are filled in, and all parameters are valid.
//   - Every unsupported part of a document is a Problem. It is a Warning if requests cannot go
//     wrong without the part, so that documents of llm-d and of later releases start.
//   - Resolve has no state: equal documents give equal profiles.
//
// Tests: go test ./manifests/endpointpicker
//
// +groupName=llm-d.ai
package endpointpicker
