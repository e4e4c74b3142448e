// Package prefix estimates from picks which prefixes of prompts each model server has in its KV
// cache. Package request builds the chains, picker owns the Index, and schedule queries it.
//
// A prompt is a Chain of hashes, each of the prompt up to the end of one block. A Server is an LRU
// list of a model server's blocks, as large as the server's cache. The table of holders maps a
// block to its servers. Match reads only this table, and looks up tens of blocks for all servers.
// former.go has the last server of a block that no server has any longer.
//
// Invariants:
//   - A server that has a block also has all earlier blocks of the chain: eviction begins with the
//     chain's last block.
//   - Match takes no lock. Its result may lack blocks that are added or evicted concurrently.
//   - All servers together have at most Config.Blocks blocks, in equal shares.
//   - The LRU lists use no clock: the order of calls is the order of use.
package prefix
