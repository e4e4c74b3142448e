// Command rivals sends the same requests to Penstock and to other routers, and compares when
// answers begin and end. Each router has its own simulated model servers. `make bench-rivals` runs
// it. contenders.go describes Penstock and the rivals, and fleet.go starts them. schedule.go is the
// load generator. overhead.go measures the time that a router adds to a request.
//
// How a comparison is fair:
//   - All contenders run at the same time. Each has a fleet of four `penstock sim` of the same
//     speed, and receives every request, 5 ms after another contender. The order rotates with each
//     request, so that noise of the machine hits all alike.
//   - Servers send a stream's headers at once, read prompts one after the other, and keep the
//     blocks of prompts, as vLLM does.
//   - The load generator is open loop, and has priority over all contenders. It records how late
//     it sent each request. A workload whose 99th percentile of lateness exceeds 5 ms is void: it
//     has no ratios and is in no figure.
//   - picker/simulation plays the same requests to strategies that re-state the rivals. The table
//     has the simulated ratio divided by the ratio of real processes.
//   - TTFT is the time from sending to the first content of the stream; the end is its last byte.
//     An incomplete answer is a failed request. A contender that failed more than 1 % of its
//     requests is not compared.
//   - The first fifth of a workload's requests fills the caches, 8 requests at a time. The first
//     tenth of the traffic does not count either, because queues are still short. The rest has 32
//     slices. An interval is the middle 95 % of 1,000 ratios of slices drawn with replacement; both
//     sides of a ratio have the same slices.
//   - A second Penstock is a contender, too. The largest ratio in the interval of the two Penstocks
//     is the noise. A rival's ratio that is closer to 1 is printed as equal.
//   - Contenders have their default settings; FULL=1 also plays with the settings that the rivals'
//     documentation recommends. The output names each missing rival.
//
// conformance/tools/rivals pins the rivals. Tests: cd conformance && go test ./rivals. They need
// Envoy, and no rival.
package main
