// Package prefix derives from picks which beginnings of prompts each model server has in its KV
// cache. Package request builds the chains, picker owns the Index, and schedule queries it.
//
// A prompt is a Chain of hashes. Each hash covers the prompt up to the end of its block. A Server
// is an LRU list of a model server's blocks, as large as the server's cache. The table of holders
// maps a block to its servers. Match reads only the table, and looks up tens of blocks for all
// servers. former.go keeps the last server of a block that no server holds any more.
//
// Invariants:
//   - A server's blocks are closed under prefixes: the last block of a chain is evicted first.
//   - Match takes no lock. It may miss blocks that are added or evicted concurrently.
//   - All servers together have at most Config.Blocks blocks. Each has an equal share.
//   - Order replaces time: the order of calls is the order of use.
package prefix
