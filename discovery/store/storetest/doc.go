// Package storetest fills the fields of store objects with texts, a different text in each field,
// so that a test can determine which fields a page prints.
package storetest
