// Package addresses decides which IP addresses may become endpoints, because a gateway can reach
// more addresses than its users may reach. Translation checks each address that a user writes, or
// that DNS returns for a user's host name. The picker checks addresses from pickers in other
// clusters.
//
// Invariants: an IPv6 address that reaches an IPv4 address through NAT64 or a tunnel counts as
// both. Link-local, multicast and unspecified addresses are never allowed. Without a
// store.AddressPolicy, no address that a user writes is allowed.
//
// Tests: go test ./translator/addresses
package addresses
