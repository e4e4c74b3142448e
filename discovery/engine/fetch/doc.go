// Package fetch downloads models from Hugging Face, or from a mirror with the same HTTP API, into
// the cache that Hugging Face's own programs use. The subcommands pull, models, rm and run of
// cmd/penstock use it, and so does discovery/engine/controller for models of a ModelRegistry.
//
// The cache has the layout of the Python package huggingface_hub, so each finds the other's files:
//
//	models--ORG--NAME/blobs/HASH                 contents; HASH.incomplete while it is downloaded
//	models--ORG--NAME/snapshots/COMMIT/FILE      a link to the blob
//	models--ORG--NAME/refs/REVISION              the commit of a branch or tag
//	models--ORG--NAME/.penstock/COMMIT.json      the list of the commit's files (Penstock's own)
//	.locks/models--ORG--NAME/HASH.lock           flock: one process at a time downloads a blob
//
// A fetch resolves the revision to a commit (listing.go), chooses files (selection.go), and
// downloads the blobs that the cache lacks (blob.go, transport.go). If the registry cannot be
// reached, it uses the model in the cache (repository.go).
//
// Invariants:
//   - A blob gets its name only after its content has the hash in the commit's listing: SHA-256 for
//     LFS files, and Git's blob hash for other files.
//   - A revision is in refs, and a fetch succeeds, only once the cache has all its files.
//   - A credential is sent only to the host of the registry, never to the target of a redirect.
//     Over plain HTTP it is sent only to this machine.
//   - No file name from a registry leads out of the cache's folder for the model.
//   - The size of responses, the number and sizes of files, and waiting times are bounded. If a
//     registry exceeds a bound, or sends other content than it announced, the fetch returns an
//     *Error that names the field of the ModelDeployment.
//   - A download keeps Config.Reserve free on the disk and stays within Config.Limit.
//
// Tests: go test ./discovery/engine/fetch, also with -fuzz FuzzListing.
package fetch
