// Package parents detects gateways of other clusters that have no route for the Host that they
// receive.
//
// A gateway of an import in ParentMode without parents[].hostname receives the Host of each client.
// If the gateway's routes have other hosts, it responds with 404. Envoys report each response
// (accesslog.Attempt), and a Counter counts 404s and other responses by exporting cluster. Repeated
// 404s become a finding of the import, with the field to write, unless there are more other
// responses. The finding is resolved when the 404s end, other responses outnumber them, the
// hostname is set or the cluster leaves.
//
// A model server behind the gateway also responds with 404 when it lacks a model. So a few 404s
// among other responses are no finding, and the finding names both solutions.
//
// Invariants: a Counter counts for at most maxParents exporting clusters. It stores only the Host
// and the gateway's address of the first 404. It drops a report of a Gateway whose proxies do not
// have the cluster (Config.Allowed). It is idle while no gateway responds with 404.
//
// Tests: go test ./multicluster/traffic/parents
package parents
