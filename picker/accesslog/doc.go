// Package accesslog receives how picked requests ended: it is Envoy's gRPC access log service.
//
// An entry carries the pick's lease in dynamic metadata (namespace "penstock"), the endpoint that served (namespace
// "envoy.lb"), the response's status and its times. Entries without a lease belong to requests that were not picked for and
// are skipped. The service is not on a request's path; a lost entry costs no more than a lease that expires.
//
// Package picker implements Sink. Tests: go test ./picker/accesslog.
package accesslog
