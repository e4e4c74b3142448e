// Package apply is the API server as fleet needs it: it follows the objects that carry our label, and applies and deletes
// them.
//
// fleet calls it, on the replica that writes. Of each object it keeps a few fields (Object); what Apply got back counts as
// seen, so that a watch that is a little late does not make fleet write twice. The pods with our label are followed too, for the nodes
// that they are on.
//
// Invariants: it applies as field manager "penstock", by force, so that what others own of an object stays; an object of the
// same name that does not carry our label is never touched (ErrForeign). The client has no rate limit of its own.
//
// Tests: go test ./xds/fleet/apply (against a small API server of its own).
package apply
