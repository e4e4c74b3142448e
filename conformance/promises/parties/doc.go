// Package parties has the other parties in tests of the built binary: honest and hostile members of
// a cluster set, and publishers of KV events. It has no tests; conformance/promises/attacks uses
// it.
package parties
