// Package selection decides which cluster of an import a request goes to. It is pure: no I/O, no
// clock, no random source. Callers pass the time, and a source of random numbers.
//
// By a pick, where a picker names clusters for each request:
//
//	leastload.go  LeastLoad: a cost in seconds for each member, by its reports or by this gateway's own books
//	report.go     Report: what a member publishes of its pool, and what is believed of it
//	books.go      the requests that this gateway sent to a member
//	lease.go      Lease: one of them, until it ends
//	latency.go    Latency: a cost in seconds by how fast each member answers
//	blocks.go     the beginnings of prompts that were sent to a member, by any gateway
//
// By EDS alone, as weights and priorities of the members' endpoints:
//
//	shares.go     Weighted, Locality, Priority
//	damper.go     Damper: when a member that was down counts as up again, for Priority (cmd/penstock/internal/failback observes it)
//
// within.go bounds both: a member outside of Within is not listed at all, whatever fails.
//
// # The cost
//
// For a prompt of which u tokens were not sent to a member before, by any gateway, the member costs
//
//	wait + 3u/P + round trip + margin
//
// seconds, with margin for members other than the own cluster. The wait is, by a report, least +
// (sum of u / P + 20 ms x number) / N of the requests that this gateway sent there and that the
// report does not count; without one, (clamp(W, Q/2, Q) / P + 20 ms x in flight) / N of this
// gateway's own requests. N is how many servers the member has, P how many prompt tokens one of
// them reads in a second, least the wait at its least loaded server, Q the sum of u without a first
// byte, W the same less what the servers have read since. The weights 3 and 20 ms are those of the
// strategy "load" (picker/schedule).
//
// With Latency a member costs
//
//	first byte + round trip + margin
//
// with the exponentially weighted mean of the times until the first byte of its answers, less the
// round trip, for the first byte. One that has not answered for 10 min is unknown, and one that has
// not for 30 s is checked by every twentieth request at most: it then costs its round trip and
// margin alone, for one request at a time, so it is tried unless another one is faster than that.
//
// A member that declines a request is barred for 10 s. One that misses three reports of the
// interval that it announced is barred once, for 10 s; then this gateway's own books count until it
// reports again, because silence is not withdrawal. Barred members are last in the ranking, so they
// serve if all others decline.
//
// # Invariants
//
//   - Rank and Begin allocate nothing once a member's tables have their size, and take one lock.
//   - Memory is bounded: MaxMembers members, Config.Blocks blocks of all of them together,
//     maxUnreported requests in the books of each.
//   - A report cannot break the choice: figures that are no numbers, negative or absurd are brought
//     into range.
//   - Members of equal cost are chosen with equal probability.
//
// Only translator/inference, for what EDS decides, and cmd import it. Tests: go test
// ./multicluster/selection; FuzzLeastLoad_EveryMemberIsRankedOnce has members join, leave, report
// and decline in any order.
package selection
