// Package selection chooses the cluster of an import for a request. It is pure: no I/O, clock or
// random source. Callers pass the time and a source of random numbers.
//
// By a pick, where a picker names clusters for each request:
//
//	leastload.go  LeastLoad: a cost in seconds by members' reports or this gateway's requests
//	report.go     Report: a member's report on its pool, and its limits
//	books.go      the requests that this gateway sent to a member
//	lease.go      Lease: one of them, until it ends
//	latency.go    Latency: a cost in seconds by members' response times
//	blocks.go     beginnings of prompts that any gateway sent to a member
//	news.go       News: the prompt blocks for a member's next report
//
// By EDS, as weights and priorities of the members' endpoints:
//
//	shares.go     Weighted, Locality, Priority
//	damper.go     Damper: when a recovered member is up again, for Priority
//
// within.go bounds both: a member outside of Within is never listed.
//
// # The cost
//
// For a prompt with u tokens that no gateway has sent to a member before, the member costs
//
//	wait + 3u/P + round trip + margin
//
// seconds, with margin for members other than the own cluster. The wait is, by a report, least +
// (sum of u / P + 20 ms x number) / N of the requests that this gateway sent there and that the
// report does not count; without one, (clamp(W, Q/2, Q) / P + 20 ms x in flight) / N of this
// gateway's own requests. N is how many servers the member has, P how many prompt tokens one of
// them reads in a second, least the wait at its least loaded server, Q the sum of u without a first
// byte, W the same less what the servers have read since. The weights 3 and 20 ms are taken from
// the strategy "load" (picker/schedule).
//
// With Latency a member costs
//
//	first byte + round trip + margin
//
// where first byte is the exponentially weighted mean of the times to the first byte of its
// responses, less the round trip. A member without responses for 10 min is unknown. A member
// without responses for 30 s is tried by at most every twentieth request: it then costs only its
// round trip and margin, for one request at a time, so it is chosen unless another one is faster
// than that.
//
// A member that declines a request is barred for 10 s. A member that misses three of its announced
// reports is barred once, for 10 s; then this gateway's own requests count until it reports again,
// because silence is not withdrawal. Barred members are last in the ranking, so they serve if all
// others decline.
//
// # Invariants
//
//   - Rank and Begin allocate nothing once a member's tables have their size, and take one lock.
//   - Memory is bounded: MaxMembers members, Config.Blocks blocks together, maxUnreported requests
//     for each member.
//   - A report cannot break the choice: NaN, negative and absurd figures are brought into range.
//   - Members of equal cost are chosen with equal probability.
//
// Only translator/inference, for what EDS decides, and cmd import it. Tests: go test
// ./multicluster/selection; FuzzLeastLoad_EveryMemberIsRankedOnce has members join, leave, report
// and decline in any order.
package selection
