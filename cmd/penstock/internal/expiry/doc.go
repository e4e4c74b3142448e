// Package expiry finds certificates that have ended or end soon, in the Secrets and ConfigMaps that
// configuration reads. multicluster/set checks the bundles of members of a ClusterSet.
//
// Invariants: a finding contains only the name and the dates of a certificate. Entries that cannot
// be parsed are left to the part that uses them.
package expiry
