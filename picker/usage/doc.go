// Package usage counts the requests, tokens and GPU seconds of each caller, by model, pool and
// hour. A Keeper receives the requests that Envoys' gates decided (accesslog.Used), after their
// end. cmd connects access logs to Log, and the command "usage" to Read.
//
// Counts go from memory (keeper.go) to a journal in the state folder (journal.go), and every ten
// seconds to a database, SQLite or PostgreSQL (database.go). Responses without an account of tokens
// are estimated (estimate.go).
//
// Invariants:
//   - No request waits for a disk or a database, or fails because of their errors.
//   - Counts in the journal survive a kill. A segment is removed after its commit. Applying a
//     segment again has no effect.
//   - Memory, journal and SQLite file are bounded. Above maxKeys, counts lose their names.
package usage
