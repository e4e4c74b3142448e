// Package selection chooses the cluster of an import for a request. It reads no clock and makes no
// random numbers: callers pass both. If a picker chooses for each request, LeastLoad ranks the
// clusters by cost. If Envoy chooses, shares.go computes the weights and priorities of members in
// EDS, and Damper delays recovered members. The type Within limits the choice in both cases.
//
// For a prompt with u tokens that no gateway has sent to a member before, the member costs
//
//	wait + 3u/P + round trip + margin
//
// seconds. The margin of this cluster itself is 0. If the member reports, the wait is least + (sum
// of u / P + 20 ms x number) / N, over the requests that this gateway sent and that the report does
// not count. Otherwise it is (clamp(W, Q/2, Q) / P + 20 ms x number) / N, over this gateway's
// requests in flight. N is the number of the member's servers. P is how many prompt tokens a server
// reads in a second. least is the wait at the least loaded server. Q is the sum of u of requests
// without a first byte. W is Q less the tokens that the servers should have read since. The weights
// 3 and 20 ms are from the strategy "load" (picker/schedule).
//
// With Config.Latency, the mean time to the first byte, less the round trip, replaces wait + 3u/P.
// If a member has sent no response for 30 s, at most every twentieth request tries it, one at a
// time.
//
// A member that declines a request, or misses three announced reports, is barred for 10 s. Barred
// members are last in the ranking. Invalid reports do no harm: numbers outside their ranges, and
// NaN, are replaced.
package selection
