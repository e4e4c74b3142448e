// Package apply reads and writes a fleet's objects at the API server: it watches the objects with
// Penstock's label, applies them (server-side apply) and deletes them. secret.go stores the
// certificate authority and reviews tokens with the same client.
//
// fleet calls it on the leading replica. It keeps a few fields of each object (Object). It keeps
// the result of Apply like a watch event, so that the late event does not cause a second write. It
// also watches the labeled pods, for the addresses of their nodes.
//
// Invariants: it applies by force as field manager "penstock". Fields that only other managers set
// stay. It never modifies an object without the label (ErrNotOwned). The client has no rate limit.
//
// Tests: go test ./xds/fleet/apply (against a minimal API server in the test).
package apply
