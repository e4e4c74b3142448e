// Package apply watches a fleet's objects (by Penstock's label) at the API server, writes them by
// server-side apply, and deletes them. fleet calls it on the leading replica. It handles the result
// of Apply like a watch event. So the real event, which arrives later, does not cause a second
// write.
//
// Invariants: it applies by force as field manager "penstock". It never modifies an object without
// the label (ErrNotOwned).
//
// Tests: go test ./xds/fleet/apply (against a minimal API server in the test).
package apply
