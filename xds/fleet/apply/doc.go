// Package apply watches a fleet's objects (by Penstock's label) at the API server, writes them by
// server-side apply, and deletes them. Package fleet calls it on the leading replica. The result of
// Apply counts as a watch event, so the real event causes no second write.
//
// Invariants: apply writes by force as field manager "penstock". It never modifies an object
// without the label (ErrNotOwned).
//
// Tests: go test ./xds/fleet/apply (against a minimal API server in the test).
package apply
