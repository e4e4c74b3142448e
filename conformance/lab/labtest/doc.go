// Package labtest is what tests that run in a lab share, whatever they test: a namespace of a test's own in one of its clusters with an
// administrator's clients (Place), waiting for what must come (Until), and asking what serves (Get).
//
// The tests of conformance/lab, conformance/promises/apiserver, conformance/promises/chart and conformance/promises use it; it knows nothing of Penstock. What
// only one of them asks for stands there, as methods of a type that has a Place.
//
// Invariants: nothing here sleeps or measures time: Until asks again until it holds, and Patience only ends what hangs.
//
// Tests: it is what `make test-lab` runs on.
package labtest
