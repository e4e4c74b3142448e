// Package endpointpicker reads the EndpointPickerConfig of llm-d's router: the filters, scorers and
// picker of a scheduling profile. For servers with roles, it reads a profile for each stage of a
// request (disagg.go). headers.go lists the headers that name the chosen servers. Translation and
// discovery/file validate documents with it; picker/schedule implements the plugins.
//
// Each plugin has a row in plugins.go and a row in picker/schedule. Its formula for the reference
// is in cmd/penstock/reference_notes_test.go. upstream.go has the types of llm-d's router that work
// like another type or have no effect.
//
// Every unsupported part of a document is a Problem. If requests could go to wrong servers without
// the part, the document is invalid. Otherwise the Problem is a Warning, so that documents of llm-d
// and of later releases work. A Profile is complete: defaults are filled in, and all parameters are
// valid. Tests: go test ./manifests/endpointpicker
//
// +groupName=llm-d.ai
package endpointpicker
