// Package inference turns InferencePools, InferencePoolImports and their PoolPolicies into the
// model: which cluster a pool is, which picker it has, what happens without a pick, where it
// spills, and which model servers it has.
//
// translator calls it, one function a kind of result; every function is pure and reads only through
// the store.Reader it is given, so that the caller learns what a result hangs on.
//
// Invariants: spilling is one hop deep: a hop sends to a pool's last variant, which has no spill
// endpoints. A pool that cannot be served as written still has a model, with the reason in
// Resolved, so that its routes fail for exactly its share.
//
// Tests: go test ./translator/inference
package inference
