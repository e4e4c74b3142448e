// Package models finds the models of a pool's servers: it queries GET /v1/models of each server,
// and adds the LoRA adapters on the server's metrics page.
//
// Queries are rare and bounded: a request for a pool's models queries at most 8 servers, those with
// the oldest answers first, and then no server for 30 s. Answers are kept for 10 minutes while
// their servers are in the pool. The number of models per server, pool and list and the length of
// names are limited. A server without /v1/models has no models.
//
// A pool may be queried in parts: subsets of its servers, and requests to another cluster's
// gateways, which answer by host and path. A pool keeps at most 16 parts, so that a client with
// many paths causes few queries. Calls of gateways have a Via header; package picker queries no
// further gateway for a request that has it.
//
// Holders tracks, for the picks of one pool, which servers lack a model that others have. It uses
// the servers' lists, their 404s, and their successes with models that they do not list. Picks read
// an immutable view. They cause the lists to be read: every 5 s, and at least 250 ms apart after a
// 404 and for an unlisted name. One reading queries at most 64 servers. Marks, answers and awaited
// names are limited to 256 each.
//
// Only package picker calls it. Tests: go test ./picker/models.
package models
