// Package gates keeps the table of the authorization service (picker/authz) equal to the store's
// APIKeys and AccessPolicies, and reports keys that cannot be used.
//
// An AccessPolicy with jwt also needs the public keys of an issuer: picker/authz/jwks fetches them
// from the sources that issuers.go names, and issuers.go reports failures.
//
// A Keeper follows the store itself, so that a changed key need not wait for translation. It is
// also a part of delivery, so that the table has a policy before Envoys ask about the policy.
package gates
