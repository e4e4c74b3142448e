// Package models finds the models of a pool's servers: it queries their GET /v1/models, and adds
// the LoRA adapters on their metrics pages.
//
// Queries are rare and bounded: a request for a pool's models queries at most 8 servers, least
// recently answered first, and then none for 30 s. Answers are kept for 10 minutes while their
// servers are in the pool. Models are limited in number, per server, pool and list, and in the
// length of their names. A server without /v1/models has no models.
//
// A pool may be queried in parts: subsets of its servers, and requests to another cluster's
// gateways, which answer by host and path. A pool keeps at most 16 parts, so that a client with
// many paths causes few queries. Calls of gateways have a Via; package picker queries no further
// gateway for such a request.
//
// Holders tracks, for the picks of one pool, which servers lack a model that others have: by the
// servers' lists, their 404s, and successes without a listed model. Picks read an immutable view.
// They trigger readings of the lists: every 5 s and, 250 ms apart, after a 404 and for an unlisted
// name. A reading queries at most 64 servers. Marks, answers and awaited names are limited to 256
// each.
//
// Only package picker calls it. Tests: go test ./picker/models.
package models
