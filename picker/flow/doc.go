// Package flow holds the requests of a saturated pool, and decides which of them goes next. A model
// server cannot give back a request that it has queued, so the pool's servers receive only the
// requests that they can run.
//
// Each pool has a Queue. Its requests are in bands by priority; the highest non-empty band goes
// first. In a band the flows, one for each fairness ID, take turns of one request. In a flow the
// earliest request, or the request with the nearest deadline, goes first (Order). Package picker
// calls Enter before it chooses an endpoint. The number, size and wait of its requests are bounded.
// A Queue keeps no bodies.
//
// Invariants: a waiting request is in exactly one flow, and counts in its band. An admitted request
// takes room until Placed is called, however long the choice of its endpoint takes.
package flow
