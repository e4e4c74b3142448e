// Package models finds the models of a pool's servers: it queries GET /v1/models of each server,
// and adds the LoRA adapters on the server's metrics page. Only package picker calls it.
//
// A Lister answers requests for the list of models. A pool may be queried in parts: subsets of its
// servers, and gateways of another cluster. The gateways answer by the request's host and path.
// Calls of gateways have a Via header, so that package picker queries no further gateway.
//
// Holders tracks which servers of a pool lack a model that other servers have. It uses the servers'
// lists, their 404s, and their successes with unlisted models.
//
// Invariants: queries are rare, and their number, their time and the kept answers are bounded. A
// server without /v1/models has no models.
package models
