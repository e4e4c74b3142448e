// Package storetest fills objects of the store with texts of their own, so that tests can detect
// which of them a page prints.
//
// Tests: go test ./discovery/store
package storetest
