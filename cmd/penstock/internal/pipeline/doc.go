// Package pipeline translates each revision of the store, and passes the result to package
// delivery, which changes proxies, picker and status. One goroutine does all of this.
//
// Invariants: no proxy receives a response before all sources are read and translated once.
// Afterwards, only new revisions and fetched objects cause a translation. A row that reads an
// object which is still being fetched keeps its last value until the object arrives.
package pipeline
