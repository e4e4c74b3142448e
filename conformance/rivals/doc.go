// Command rivals sends the same requests to Penstock and to other routers, and compares when
// answers begin and end. `make bench-rivals` runs it. Rules of a fair comparison:
//   - All contenders run at the same time, each with four `penstock sim` of the same speed. Each
//     receives every request, 5 ms after another contender, in an order that rotates.
//   - The load generator is open loop, and has priority over all contenders. A workload is void if
//     the generator sends more than 1 % of the requests over 5 ms late.
//   - TTFT is the time from sending to the first content of the stream; the end is the last byte. A
//     contender that failed more than 1 % of its requests is not compared.
//   - The first fifth of the requests fills the caches. The first tenth of the traffic does not
//     count, because queues are still short. The rest is divided into 32 slices. An interval is the
//     middle 95 % of 1,000 ratios of slices drawn with replacement.
//   - The interval of a second Penstock is the noise. A rival is equal if its ratio is within it.
//
// conformance/tools/rivals pins the rivals. The tests (cd conformance && go test ./rivals) need
// Envoy, but no rival.
package main
