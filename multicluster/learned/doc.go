// Package learned stores endpoints of imported pools whose pods this cluster does not list. An
// endpoint that a remote picker names is stored and translated, and the request is answered only
// after every Envoy has the endpoint. The picker calls Learn for each relayed pick, after it has
// checked the address against the declared ranges.
//
// Keepers publish their addresses to the other processes that serve the same Envoys (share.go). An
// expiry is published as a time to live; all processes use the latest expiry.
package learned
