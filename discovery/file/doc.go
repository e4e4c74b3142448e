// Package file reads folders of YAML and JSON into the store, for Penstock without Kubernetes. User
// mistakes in files go to Config.Report as findings, and are never errors of this package.
//
// A file passes these stages: read.go finds it, document.go splits it into documents, parse.go
// parses values, draft.go converts each object, schema.go validates the object (fastvalidation
// accepts valid objects, explain.go explains errors), claims.go chooses among several definitions
// of an object, and state.go persists the definition in use. kinds.go has a row for each kind.
//
// Invariants:
//   - An invalid document never delays another document.
//   - An object whose newest definition is invalid keeps its last good form. That form survives
//     restarts. The object is removed only when its definition is removed.
//   - An invalid AccessPolicy without a last good form closes its targets (closed.go). So does a
//     ModelDeployment whose spec.access is not in use (closed_deployment.go).
//   - If an object has two definitions, the first by file path and line is in use.
//   - An endless file, a circular link, a folder of a million files or an unresponsive file system
//     causes a finding. Each delays other files and the end of the process by at most
//     filesystem.Timeout.
//   - Files that change together are applied in one store.Apply. The store holds the content of all
//     files at one moment: a route never appears before a backend that was written first.
package file
