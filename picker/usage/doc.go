// Package usage counts who used what: requests, tokens and GPU seconds of each caller, by model,
// pool and hour.
//
// A Keeper receives the requests that Envoys' gates decided (accesslog.Used), once they ended. Only
// edge listeners log them, so a request counts once, where its gate decided, never on a hop or at
// an exporting cluster. A request counts in the hour of its end, by this process's clock.
//
// Tokens come from the response's own account. Without one, a stream or a response to a known
// prompt is estimated from its bytes and marked as estimated; each pool's answers with an account
// correct the estimates (estimate.go).
//
// Counts take this way, none of which a request waits for:
//
//	memory (keeper.go) -> journal in the state folder (journal.go) -> database (database.go)
//
// The Keeper appends counts to a segment of the journal as soon as they arrive. Every ten seconds a
// segment closes, and one transaction adds its rows to the database: SQLite in the state folder, or
// PostgreSQL, with the same schema and statements. The transaction also records the segment's
// sequence number, by process and start. A segment that a crash or a retry applies again has no
// effect.
//
// Invariants:
//   - No request waits for a disk or a database, and none fails with them.
//   - Received counts survive a kill once they are in the journal, which takes milliseconds. A
//     segment is removed after its commit.
//   - Memory, journal and SQLite file are bounded. Beyond a bound, counts stay and names are
//     dropped: they count for the model or the owner "other". Beyond the SQLite file's bound, the
//     oldest hours are dropped.
//   - The database opens with the first segment. A process without gates has neither.
//   - Clocks decide about hours alone, never about what was applied.
//
// cmd/penstock wires it: access logs into Log, Read to the command usage. Tests: go test
// ./picker/usage
package usage
