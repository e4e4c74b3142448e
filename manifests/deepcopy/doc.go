// Package deepcopy copies API objects by reflection. Objects in the store are immutable, so few
// callers need a copy that they may change, and no hot path copies objects.
//
// Types must be a tree of exported fields. Exceptions are times, which are immutable, and
// quantities.
package deepcopy
