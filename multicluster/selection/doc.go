// Package selection chooses the cluster of an import for a request. It is pure: no I/O, clock or
// random source. Callers pass the time and a source of random numbers.
//
// If a picker names clusters for each request:
//
//	leastload.go  LeastLoad: a cost in seconds from members' reports or this gateway's requests
//	report.go     Report: a member's report on its pool, and its limits
//	books.go      the requests that this gateway sent to a member
//	lease.go      Lease: one such request, until it ends
//	latency.go    Latency: a cost in seconds from members' response times
//	blocks.go     beginnings of prompts that any gateway sent to a member
//	news.go       News: the prompt blocks for a member's next report
//
// If Envoy chooses, by the weights and priorities of the members' endpoints in EDS:
//
//	shares.go     Weighted, Locality, Priority
//	damper.go     Damper: when a recovered member is up again, for Priority
//
// within.go limits both: no request goes to a member outside of Within.
//
// # The cost
//
// For a prompt with u tokens that no gateway has sent to a member before, the member costs
//
//	wait + 3u/P + round trip + margin
//
// seconds, with margin for members other than the own cluster. With a report of the member, the
// wait is least + (sum of u / P + 20 ms x number) / N, for the requests that this gateway sent
// there and that the report does not count. Without a report, it is (clamp(W, Q/2, Q) / P + 20 ms x
// number) / N, for this gateway's requests in flight. N is the number of the member's servers, P
// the prompt tokens that a server reads in a second, least the wait at the least loaded server. Q
// is the sum of u without a first byte, W is Q less what the servers should have read since. The
// weights 3 and 20 ms are taken from the strategy "load" (picker/schedule).
//
// With Latency a member costs
//
//	first byte + round trip + margin
//
// where first byte is the exponentially weighted mean of the times to the first byte of its
// responses, less the round trip. A member without responses for 10 min has no mean. A member
// without responses for 30 s is tried, by one request at a time and at most every twentieth. For
// this request the member costs only its round trip and margin.
//
// A member that declines a request is barred for 10 s. A member that misses three announced reports
// is barred once, for 10 s, because silence is not a withdrawal. Afterwards its wait is computed
// without a report until it reports again. Barred members are last in the ranking, so they serve if
// all others decline.
//
// # Invariants
//
//   - Rank and Begin take one lock, and allocate nothing once a member's tables have grown.
//   - Memory is bounded: MaxMembers members, Config.Blocks blocks together, maxUnreported requests
//     for each member.
//   - A report cannot break the choice: figures outside their ranges, and NaN, are replaced.
//   - Members of equal cost are chosen with equal probability.
//
// Tests: go test ./multicluster/selection
package selection
