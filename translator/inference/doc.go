// Package inference turns InferencePools, InferencePoolImports and their PoolPolicies into the
// model. translator calls it. Functions are pure and read only through their store.Reader.
//
// Invariants: a hop sends to a pool's last variant, which has no spill endpoints. A pool that
// cannot be served as written still has a model, with the reason in Resolved: only its share of the
// requests fails.
//
// Tests: go test ./translator/inference
package inference
