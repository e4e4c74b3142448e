// Package usage counts the requests, tokens and GPU seconds of each caller, by model, pool and
// hour. A Keeper receives the requests that access checks allowed or denied (accesslog.Used) from
// Envoys' access logs. cmd passes access logs to Log, and answers the command "usage" with Read.
//
// The Keeper writes counts from memory (keeper.go) to a journal in the state folder (journal.go),
// and every ten seconds to a SQLite or PostgreSQL database (database.go). It estimates tokens that
// a response does not report (estimate.go).
//
// Invariants:
//   - No request waits for a disk or a database, or fails because of their errors.
//   - Counts in the journal survive a kill of the process. The Keeper removes a segment of the
//     journal after the database has committed it. Applying a segment again has no effect.
//   - The sizes of memory, journal and SQLite file are bounded. Above maxKeys keys, further counts
//     have the name Other.
package usage
