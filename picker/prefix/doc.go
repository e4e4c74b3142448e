// Package prefix records which beginnings of prompts each model server has in its KV cache, as far
// as picks show: a server that was sent a prompt has it cached, until later prompts take its place,
// or the server denies it.
//
// A prompt is a Chain of hashes, one a block. Each hash covers the prompt up to the end of its
// block, so two prompts with the same element have the same beginning. Builder hashes text in one
// pass. The seed of a chain (model, adapter, cache salt), tools and instructions may follow the
// messages, as in the bodies of openai-python: Join puts them in front at the end.
//
// Index has two halves. Server is an LRU list of the blocks that one model server has, as long as
// the server's cache. The table of holders leads from a block to the servers that have it. Match
// reads the table alone: for a thousand servers it looks up tens of blocks, and not each server's.
//
// Index also remembers which server had a block last that none has any more (former.go).
//
// What one process knows of a server, another one takes over by a snapshot (snapshot.go). Chains
// are equal in all processes.
//
// Invariants:
//   - What a server has is closed under prefixes: with a block it has all blocks before it. Add
//     moves a chain to the front as a whole, its first block foremost, so the last block of a chain
//     is evicted first. A Forget without its Add may break this, until the next Add.
//   - Match takes no lock. It may miss what is added or evicted at the same time, and reports
//     nothing else.
//   - The blocks of all servers together are at most Config.Blocks. Each server has an equal share,
//     and uses what its cache holds. An empty Index takes a few KiB.
//   - Match, Builder and Join allocate nothing, Add nothing once its server's list is full, but for
//     a larger table of former homes where all servers together have twice as many blocks.
//   - No clock: the order of calls is the order of use. Run alone reads one, to drop snapshots that
//     no server claims.
//
// Package request builds chains, picker owns the Index, schedule asks it. Tests: go test
// ./picker/prefix; FuzzIndex_EqualsModel compares with a map and a list.
package prefix
