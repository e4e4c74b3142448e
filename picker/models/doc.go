// Package models finds which models the servers of a pool have: it asks them for their own GET
// /v1/models, and adds the LoRA adapters that their metrics pages show.
//
// Asking is rare and bounded: a request for a pool's models has at most 8 of its servers asked,
// those whose answers are the oldest, and then none for 30 s. Answers are kept for 10 minutes while
// their servers are in the pool. Of a server's answer, of a pool and of a list, only so many models
// are kept, and names of a reasonable length. A server that has no /v1/models has no models.
//
// A pool may be asked for in parts: subsets, whose servers are some of its own, and what clients
// ask of another cluster's gateways, which answer by the host and the path. At most 16 parts of a
// pool are known at a time, so that a client that tries many paths has few asked. Calls of gateways
// have a Via, by which they are recognized: package picker asks no further gateway for a request
// that has one.
//
// Holders keeps, for the picks of one pool, which servers lack a model that another one has: by the
// servers' lists, by their 404s, and by models that they answer although no list has them. Picks
// read an immutable view. They have the lists read: every 5 s, and, 250 ms apart, after a 404 and
// for a name that no list has. A reading asks at most 64 servers. Marks, answers and awaited names
// are 256 each at most.
//
// Only package picker calls it. Tests: go test ./picker/models.
package models
