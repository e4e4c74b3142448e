// Package parents detects gateways of other clusters that have no route for the Host that they
// receive. A gateway of an import in ParentMode without parents[].hostname receives the Host of
// each client, and responds with 404 if its routes have other hosts. A Counter counts 404s and
// other responses (accesslog.Attempt) by exporting cluster. Repeated 404s become a finding of the
// import, unless responses with another status are more frequent: a model server that lacks a model
// responds with 404, too.
//
// A Counter counts for at most maxParents exporting clusters. It drops a report of a Gateway whose
// proxies do not have the cluster (Config.Allowed).
package parents
