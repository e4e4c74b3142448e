// Package usage counts the requests, tokens and GPU seconds of each caller, by model, pool and
// hour.
//
// A Keeper receives the requests that Envoys' gates decided (accesslog.Used), after their end. Only
// edge listeners log them, so a request counts once, where its gate decided, never on a hop or at
// an exporting cluster. It counts in the hour of its end, by this process's clock.
//
// Tokens come from the response's account ("usage"). Without it, a stream or a response to a known
// prompt is estimated from its bytes, and marked as estimated. A pool's answers with an account
// correct its estimates (estimate.go).
//
// Counts pass through three stages. No request waits for any of them:
//
//	memory (keeper.go) -> journal in the state folder (journal.go) -> database (database.go)
//
// The Keeper appends counts to a segment of the journal as soon as they arrive. Every ten seconds a
// segment closes, and one transaction adds its rows to the database: SQLite in the state folder, or
// PostgreSQL, with the same schema and statements. The transaction also records the segment's
// sequence number, by process and start, so applying a segment again has no effect.
//
// Invariants:
//   - No request waits for a disk or a database, or fails because of their errors.
//   - Received counts survive a kill once they are in the journal, which takes milliseconds. A
//     segment is removed after its commit.
//   - Memory, journal and SQLite file are bounded. Beyond the bound of memory, counts stay but lose
//     their names: they count for the model or the owner "other". Beyond the SQLite file's bound,
//     the oldest hours are dropped.
//   - The database opens with the first segment. A process without gates has neither.
//   - Clocks decide only the hour of a count, never whether a segment was applied.
//
// cmd/penstock connects access logs to Log, and the command usage to Read. Tests: go test
// ./picker/usage
package usage
