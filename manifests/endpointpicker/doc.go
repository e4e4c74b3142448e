// Package endpointpicker is the EndpointPickerConfig of llm-d's router: the document that lists the
// filters, scorers and picker of a scheduling profile, and with servers of several roles a profile
// for each stage of a request (disagg.go). headers.go names the headers by which such a request
// names its servers. Translation and discovery/file check documents with it; package schedule
// implements the plugins.
//
// A plugin is a row of the table in plugins.go, with its parameters, and a row in picker/schedule.
// upstream.go has the types of llm-d's router that work as another or have no effect.
// docs/reference/plugins.md lists both tables.
//
// Invariants:
//   - A Profile is complete: defaults are filled in, and all parameters are valid.
//   - What a document has and Penstock does not support is a Problem that names it. Nothing is
//     dropped silently. It is a Warning where requests cannot go wrong without it, so that
//     documents of llm-d and of later releases start.
//   - Resolve has no state: equal documents give equal profiles.
//
// Tests: go test ./manifests/endpointpicker
//
// +kubebuilder:object:generate=true
// +groupName=llm-d.ai
package endpointpicker
