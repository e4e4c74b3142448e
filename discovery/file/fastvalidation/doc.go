// Package fastvalidation decides quickly whether a value is certainly valid by a structural schema
// and its CEL rules.
//
// The API server's validation libraries (k8s.io/apiextensions-apiserver) describe errors. For a
// typical route they take 0.88 ms and 5,868 allocations; Schema.Valid takes 0.12 ms and 270. A
// folder of 1,000 routes loads in 0.6 s instead of 4.3 s (discovery/file's BenchmarkValidateRoute
// and BenchmarkLoad1000Routes, on two cores). discovery/file calls the libraries only if Valid
// returns false.
//
// Invariants: if Valid returns true, the libraries accept the value. If it returns false, they may
// still accept it: Valid returns false for everything unsupported (embedded resources, most
// formats, CEL functions outside of Compiler's environment). A Schema is immutable and safe for
// concurrent use.
//
// schema.go checks structure: types, required fields, limits, lists that are sets or maps. rules.go
// compiles and evaluates CEL rules.
//
// Tests: go test ./discovery/file/fastvalidation. TestCEL_EveryRuleAcceptsAndRejects runs each rule
// of each CRD in manifests/crds against apiextensions in both directions; discovery/file has a
// differential test on whole objects.
package fastvalidation
