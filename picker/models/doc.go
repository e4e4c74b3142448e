// Package models finds the models of a pool's servers: by GET /v1/models of each server, and by the
// LoRA adapters on its metrics page. Only package picker calls this package.
//
// A Lister answers requests for the list of models. It may query a pool in parts: subsets of its
// servers, and gateways of another cluster, whose answers depend on the request's host and path.
// Calls to gateways have a Via header, so that the picker there does not query further gateways.
//
// Holders tracks which servers of a pool lack a model that other servers have: by the servers'
// lists, their 404s, and successful requests for unlisted models.
//
// Invariants: queries are rare. Their number, their time and the size of the stored answers are
// bounded. A server without /v1/models counts as a server without models.
package models
