// Package deepcopy copies API objects by reflection. No hot path copies objects: the store's are
// immutable, so few callers need a copy that they may change. Anyone may call it; it has no state.
//
// Types must be a tree of exported fields. The only values with unexported fields that API types
// have are times, which are immutable, and quantities.
package deepcopy
