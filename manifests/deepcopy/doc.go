// Package deepcopy copies API objects by reflection. Objects in the store are immutable, so few
// callers need a copy that they may change, and no hot path copies objects.
//
// A copied type must be a tree of exported fields. Times, which are immutable, and quantities are
// exceptions.
package deepcopy
