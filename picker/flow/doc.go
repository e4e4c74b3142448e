// Package flow implements flow control: the requests of a saturated pool wait in the picker, which
// decides which request a server gets next. A model server cannot return a queued request, so the
// pool's servers receive only the requests that they can run.
//
// Each pool has a Queue. A Queue has a band for each priority; the highest non-empty band goes
// first. A band has a flow for each fairness ID; its flows take turns of one request. In a flow,
// the earliest request or the request with the nearest deadline goes first (Order). Package picker
// calls Enter before it chooses an endpoint. Limits bound the number, size and wait of the
// requests. A Queue does not keep bodies.
//
// Invariants: a waiting request is in exactly one flow, and counts in its band. An admitted request
// takes room until the caller calls Placed, however long the choice of its endpoint takes.
package flow
