// Package pipeline translates each revision of the store, and passes the result to package
// delivery, which changes proxies, picker and status. One goroutine does all of this.
//
// Invariants: no proxy receives a response before all sources are read and translated once.
// Afterwards the goroutine only waits for the next revision. A row that reads an object which is
// still being fetched keeps its last value, and is translated when the object arrives.
package pipeline
