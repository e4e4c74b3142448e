// Package fetch downloads models from Hugging Face, or from a mirror that speaks its HTTP, into
// Hugging Face's own cache. The subcommands pull, models, rm and run of cmd/penstock use it, and
// cmd/penstock/internal/deployments for models of a ModelRegistry.
//
// The Python package huggingface_hub has the same layout, so both find the files of each other:
//
//	models--ORG--NAME/blobs/HASH                 contents; HASH.incomplete while it is downloaded
//	models--ORG--NAME/snapshots/COMMIT/FILE      a link to the blob
//	models--ORG--NAME/refs/REVISION              the commit of a branch or tag
//	models--ORG--NAME/.penstock/COMMIT.json      the list of the commit's files (Penstock's own)
//	.locks/models--ORG--NAME/HASH.lock           flock: one process at a time downloads a blob
//
// A fetch resolves the revision to a commit (listing.go), chooses files (selection.go), and
// downloads the blobs that are absent (blob.go, transport.go). Without a registry, it uses what is
// there (repository.go).
//
// Invariants:
//   - A blob has its name only once its content has the hash that the listing of the pinned commit
//     names: SHA-256 for LFS files, and Git's hash of a blob for others.
//   - A revision is in refs, and a fetch succeeds, only once all its files are there.
//   - A credential is sent to the host of the registry alone, never to the target of a redirect,
//     and over plain HTTP to this machine alone.
//   - No name from a registry leads out of the cache's folder for the model.
//   - Answers, numbers of files, sizes and waiting times are bounded. What a registry sends beyond
//     a bound, or other than it announced, is an *Error that names the field of a deployment's
//     model.
//   - A download keeps Config.Reserve free on the disk and stays within Config.Limit.
//
// Tests: go test ./discovery/engine/fetch, also with -fuzz FuzzListing.
package fetch
