// Package parents detects gateways of other clusters that have no route for the Host that they
// receive. A gateway of an import in ParentMode without parents[].hostname receives each client's
// Host. It responds with 404 if its routes have other hosts. A Counter counts 404s and other
// responses (accesslog.Attempt) by exporting cluster. Repeated 404s become a finding of the import,
// unless other responses are more frequent: a model server without the requested model responds
// with 404, too.
//
// A Counter counts for at most maxParents exporting clusters. It drops an Envoy's report on a
// cluster that Penstock has not configured in the Envoy (Config.Allowed).
package parents
