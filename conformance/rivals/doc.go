// Command rivals sends the same requests to Penstock and to other routers, and compares when
// answers begin and end. `make bench-rivals` runs it. How a comparison is fair:
//   - All contenders run at the same time, each with four `penstock sim` of the same speed. Each
//     receives every request, 5 ms after another contender, in an order that rotates.
//   - The load generator is open loop, and has priority over all contenders. A workload is void,
//     without ratios and figures, if the 99th percentile of its lateness exceeds 5 ms.
//   - TTFT is the time from sending to the first content of the stream; the end is its last byte. A
//     contender that failed more than 1 % of its requests is not compared.
//   - The first fifth of the requests fills the caches. The first tenth of the traffic does not
//     count, because queues are short. The rest has 32 slices. An interval is the middle 95 % of
//     1,000 ratios of slices drawn with replacement.
//   - A second Penstock is a contender, too. A rival counts as equal if its ratio is closer to 1
//     than the interval of the two Penstocks.
//
// conformance/tools/rivals pins the rivals. Tests: cd conformance && go test ./rivals. They need
// Envoy, and no rival.
package main
