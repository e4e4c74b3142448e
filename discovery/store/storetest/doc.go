// Package storetest fills the fields of store objects with texts, a different one in each field. So
// a test can determine which fields a page prints.
//
// Tests: go test ./discovery/store
package storetest
