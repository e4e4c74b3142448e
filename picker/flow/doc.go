// Package flow holds back the requests of a saturated pool, and decides which of them goes next.
//
// A model server that is sent more than it can run queues the rest, and it cannot be taken back:
// neither for a more urgent request, nor for another server that has become free. So a pool with
// flow control sends its servers no more than they take, and keeps the rest here, where one request
// may still pass another.
//
// Queue is one pool's. Its requests are in bands by priority; the highest band with requests goes
// first. In a band the flows, one for each fairness ID, take turns of one request. In a flow the
// earliest goes first, or the one whose deadline is nearest.
//
//	Enter   admits a request at once, queues or rejects it; it never blocks
//	Await   blocks until a queued request is admitted, rejected, or its time is over
//	Admit   admits what the pool has room for; Await has it called while requests wait
//	Placed  follows each admission, once Measure counts the request or it is not sent
//
// Measure decides how much a pool takes, from what its servers report and what they were sent
// since.
//
// The picker of a pool calls Enter before it chooses an endpoint, and only if the pool's policy has
// flow control. Everything is bounded: requests and bytes of a band, bands, flows, and the time of
// each request. Nothing here keeps a body.
//
// Invariants: while a request waits that may be admitted, none of a lower band, and none of its
// flow that comes after it, is admitted. A request that is neither admitted nor removed is in
// exactly one flow, and counts in its band. Room that was measured once is given away once: an
// admitted request takes room until Placed, however long the choice of its endpoint takes.
//
// The tests run in a synctest bubble, without a picker: go test ./picker/flow.
package flow
