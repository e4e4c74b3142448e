// Package expiry finds certificates that have ended or end soon, in the Secrets and ConfigMaps that
// configuration reads. multicluster/set checks the bundles of members of a ClusterSet.
//
// Invariants: a finding contains only the name and the dates of a certificate. The part that uses
// an entry reports that the entry cannot be parsed.
package expiry
