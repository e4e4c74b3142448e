// Package addresses decides which IP addresses may become endpoints. A gateway reaches more than
// the users who write its objects do: the metadata server of its cloud, the API server, other
// users' pods. So an address that a user wrote, or that a DNS server answered for a name that a
// user wrote, is judged here before Envoy or the picker connects to it.
//
//	ranges.go     Ranges: what an operator allows and denies, and what is never allowed
//	embedded.go   IPv4 addresses inside of IPv6 addresses
//	policy.go     Policy: Ranges, and whose endpoints an address is, by the objects of the store
//
// translator/services and translator/inference call Policy for every written address; cmd gives
// Ranges to the picker, for what remote pickers name.
//
// Invariants: every form of an address is judged: an IPv6 address that reaches an IPv4 address
// through a translator is both. Loopback (unless the owner of a folder's files may name it),
// link-local, multicast and unspecified addresses are never allowed, whatever the ranges. Without a
// store.AddressPolicy nothing that a user wrote is allowed.
//
// An answer of DNS is judged where it is read, in translation, and not where it arrives: so every
// change of an answer or of an object is judged again, by the same code. The policy is an object of
// the store. discovery/kube looks up which Services have an address (store.Occupant), but only for
// the addresses that translation reads.
//
// Tests: go test ./translator/addresses
package addresses
