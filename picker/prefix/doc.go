// Package prefix records which beginnings of prompts each model server has in its KV cache, derived
// from picks. A server that was sent a prompt has the prompt cached until later prompts replace it,
// or until the server denies the prompt.
//
// A prompt is a Chain of hashes, one per block. Each hash covers the prompt up to the end of its
// block, so prompts with the same element have the same beginning. Builder hashes text in one pass.
// The seed of a chain (model, adapter, cache salt), tools and instructions may follow the messages
// in a body, as in the bodies of openai-python; Join puts them first.
//
// Index has two parts. Server is an LRU list of one model server's blocks, as large as the server's
// cache. The table of holders maps a block to its servers. Match reads only the table: for a
// thousand servers it looks up tens of blocks in all, not tens for each server.
//
// Index also keeps the last server of a block that no server holds any more (former.go). A snapshot
// (snapshot.go) transfers a server's blocks to another process: chains are equal in all processes.
//
// Invariants:
//   - A server's blocks are closed under prefixes. Add moves a whole chain to the front, its first
//     block foremost, so the last block of a chain is evicted first. A Forget without its Add may
//     break this until the next Add.
//   - Match takes no lock. It may only miss blocks that are added or evicted concurrently.
//   - All servers together have at most Config.Blocks blocks. Each has an equal share, of which it
//     uses no more than its cache holds. An empty Index takes a few KiB.
//   - Match, Builder and Join allocate nothing. Add allocates nothing once its server's list is
//     full, except for a larger table of former homes when the total number of blocks doubles.
//   - Order replaces time: the order of calls is the order of use. Only Run reads a clock, to drop
//     unclaimed snapshots.
//
// Package request builds chains, picker owns the Index, and schedule queries it. Tests: go test
// ./picker/prefix; FuzzIndex_EqualsModel compares with a map and a list.
package prefix
