// Package gates keeps the table of the authorization service (picker/authz) equal to the store's
// APIKeys and AccessPolicies, and reports keys that cannot be used.
//
// A Keeper follows the store itself, not the pipeline, so that a changed key waits for no
// translation. It is also a part of delivery, so that the table has a policy before Envoys have its
// gates.
//
// Tests: go test ./cmd/penstock/internal/gates
package gates
