// Package parents detects gateways of other clusters that have no route for the Host that they
// receive.
//
// A gateway of an import in ParentMode without parents[].hostname receives the Host of each client.
// If its routes have other hosts, it responds with 404. Envoys report each response
// (accesslog.Attempt), and a Counter counts 404s and other responses by exporting cluster. Repeated
// 404s that are not outnumbered become a finding of the import, with the field to write. The
// finding is resolved once the gateway has responded otherwise for a while, the hostname is set,
// the cluster left, or no 404 has arrived for long.
//
// A model server behind the gateway also responds with 404 when it lacks a model. So a few 404s
// among others are no finding, and the finding names both solutions.
//
// Invariants: it counts for maxParents exporting clusters at most, and stores of requests only the
// Host and the gateway's address of the first 404. A report counts if the Gateway's proxies have
// the cluster (Config.Allowed); others are dropped. It is idle while no gateway responds with 404.
//
// Tests: go test ./multicluster/traffic/parents
package parents
