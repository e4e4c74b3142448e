// Package flow holds the requests of a saturated pool, and decides which of them goes next.
//
// A model server queues the requests that it cannot run. A queued request cannot be taken back,
// neither for a more urgent request nor for another server that becomes free. So a pool with flow
// control sends its servers only the requests that they can run. The others wait here, where a more
// urgent request can still overtake them.
//
// Each pool has a Queue. Its requests are in bands by priority; the highest non-empty band goes
// first. In a band the flows, one per fairness ID, take turns of one request. In a flow the
// earliest request or the nearest deadline goes first.
//
//	Enter   admits a request at once, queues or rejects it; it never blocks
//	Await   blocks until a queued request is admitted or rejected, or its maximum wait is over
//	Admit   admits the requests that the pool has room for; Await calls it while requests wait
//	Placed  follows each admission, once Measure counts the request or it is not sent
//
// Measure computes a pool's room from the reports of its servers and the requests sent since.
//
// The picker calls Enter before it chooses an endpoint, if the pool's policy has flow control.
// The requests and bytes of a band, the bands, the flows, and the wait of each request are bounded.
// A Queue keeps no bodies.
//
// Invariants: while a request waits that may be admitted, no request of a lower band and no later
// request of its flow is admitted. A request that is neither admitted nor removed is in exactly one
// flow, and counts in its band. Measured room is used once: an admitted request takes room until
// Placed, however long the choice of its endpoint takes.
//
// The tests run in a synctest bubble, without a picker: go test ./picker/flow.
package flow
