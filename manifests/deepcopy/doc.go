// Package deepcopy copies API objects by reflection. No hot path copies objects: objects in the
// store are immutable, so few callers need a copy that they may change. Every package may import
// it; it has no state.
//
// Types must be a tree of exported fields. API types have only two types with unexported fields:
// times, which are immutable, and quantities.
package deepcopy
