package prefix

// Chain is a prompt's blocks: element i is the xxhash of block i's text, seeded with element i-1. Element 0 is seeded with
// the model, the adapter and the salt.
type Chain []uint64
