// Package learned stores endpoints of imported pools whose pods this cluster does not list. When a
// remote picker names an unknown endpoint, Learn stores it for translation, and returns once every
// Envoy has it. Only then the request is answered. The picker calls Learn for each relayed pick,
// after it has checked the address against the declared ranges.
//
// Keepers publish their addresses to the other processes that serve the same Envoys (share.go). The
// expiry is the item's time to live; all processes use the latest expiry.
package learned
