// Package parenthost finds gateways of other clusters that have no route for the Host that they are
// asked for.
//
// A gateway of an import in ParentMode without parents[].hostname gets the Host of each client. If
// its routes have hosts of their own, it answers
//  404. Envoys report each answer (accesslog.Attempt); a Counter counts for each exporting cluster
//     those with 404, and the others. Repeated
//
// 404s that are not outnumbered become one finding of the import, with the field to write. It goes
// once the gateway has answered otherwise for a while, the hostname is set, or the cluster has
// left; and when no 404 has arrived for long, as no request may.
//
// A model server behind the gateway answers 404 too, to a request for a model that it does not
// have. So a few such answers among others are no finding, and the finding names both ways out.
//
// Invariants: it counts for maxParents exporting clusters at most, and keeps nothing of a request
// but the Host and the gateway's address of the first 404. A report names what a Gateway's proxies
// have clusters of (Config.Allowed); others are dropped. It does nothing while no gateway answers
// 404.
//
// Tests: go test ./cmd/penstock/internal/parenthost
package parenthost
