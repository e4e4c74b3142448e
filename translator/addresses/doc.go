// Package addresses decides which IP addresses may become endpoints. A gateway can reach more than
// the users who write its objects: the metadata server of its cloud, the API server, other users'
// pods. So each address that a user wrote, or that DNS returned for a user's host name, is checked
// before Envoy or the picker connects to it.
//
// translator/services and translator/inference call Policy for every written address; cmd passes
// Ranges to the picker, for addresses from remote pickers.
//
// Invariants: every form of an address is checked: an IPv6 address that reaches an IPv4 address
// through a translator counts as both. Link-local, multicast and unspecified addresses are never
// allowed, whatever the ranges are, nor is loopback, unless a folder's files may use it. Without a
// store.AddressPolicy no written address is allowed.
//
// Answers of DNS are checked during translation, so every change of an answer or an object is
// checked again. discovery/kube looks up which Services have an address (store.Occupant), but only
// for addresses that translation reads.
//
// Tests: go test ./translator/addresses
package addresses
