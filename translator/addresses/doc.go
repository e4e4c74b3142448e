// Package addresses decides which IP addresses may become endpoints. A gateway reaches more than
// its users may: a cloud's metadata server, the API server, other users' pods. So translation
// checks each address that a user writes, or that DNS returns for a user's host name. cmd passes
// Ranges to the picker, for addresses from remote pickers.
//
// Invariants: an IPv6 address that reaches an IPv4 address through a translator counts as both.
// Link-local, multicast and unspecified addresses are never allowed. Loopback is allowed only to
// the files of a folder. Without a store.AddressPolicy no written address is allowed.
//
// Tests: go test ./translator/addresses
package addresses
