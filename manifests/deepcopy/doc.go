// Package deepcopy copies API objects by reflection. Objects in the store are immutable, so few
// callers need a copy that they may change, and no hot path copies objects.
//
// Types must be a tree of exported fields. Times and quantities are exceptions. Times are
// immutable.
package deepcopy
