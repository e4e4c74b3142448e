// Package models finds which models the servers of a pool have: it asks them for their own GET /v1/models, and adds the LoRA adapters that
// their metrics pages show.
//
// Asking is rare and bounded: a request for a pool's models has at most 8 of its servers asked, those whose answers are the oldest, and then
// none for 30 s. Answers are kept for 10 minutes while their servers are in the pool. Of a server's answer, of a pool and of a list, only so
// many models are kept, and names of a reasonable length. A server that has no /v1/models has no models.
//
// Only package picker calls it. Tests: go test ./picker/models.
package models
