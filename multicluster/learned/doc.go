// Package learned stores endpoints of imported pools whose pods this cluster does not list. The
// picker calls Learn with the addresses that a remote picker names in a response, after it has
// checked them against the declared ranges. Learn stores a new address for translation, and returns
// once every Envoy has the endpoint. Only then the picker responds to the request.
//
// A Keeper publishes its addresses to the other processes that serve the same Envoys (share.go). An
// item's time to live is the time until the address expires. All processes use the latest expiry.
package learned
