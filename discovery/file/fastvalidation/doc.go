// Package fastvalidation checks quickly whether a value is certainly valid according to a
// structural schema and its CEL rules. Only if Valid returns false, discovery/file calls the API
// server's validation libraries, which are slower but describe errors. A folder of 1,000 routes
// loads in 0.6 s instead of 4.3 s (discovery/file's BenchmarkLoad1000Routes, on two cores).
//
// Invariants: if Valid returns true, the libraries accept the value. If it returns false, they may
// still accept the value: Valid returns false for everything unsupported (embedded resources, most
// formats, CEL functions outside of Compiler's environment). A Schema is immutable and safe for
// concurrent use.
package fastvalidation
