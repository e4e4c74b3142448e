// Package inference translates InferencePools, InferencePoolImports and their PoolPolicies into the
// model. translator calls it. Functions are pure and read only through their store.Reader.
//
// Invariants: a hop leads to a pool's last variant, which has no hops to spill targets. If a pool
// cannot be served as written, it still has a model, with the reason in Resolved: only its share of
// the requests fails.
//
// Tests: go test ./translator/inference
package inference
