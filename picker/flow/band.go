package flow

import (
	"container/heap"
	"container/list"
)

type band struct {
	priority int
	byID     map[string]*flow
	order    *list.List
	all      map[*Request]struct{}
	bytes    int64
}

func newBand(priority int) *band {
	return &band{priority: priority, byID: map[string]*flow{}, order: list.New(), all: map[*Request]struct{}{}}
}

// sharedID is the flow of the fairness IDs beyond maxFlows. No client can have this ID, because no
// header value contains a NUL.
const sharedID = "\x00"

type flow struct {
	id       string
	at       *list.Element
	requests []*Request
}

func (b *band) next() *Request { return b.order.Front().Value.(*flow).requests[0] }

// Waiting is the number and total size of the waiting requests of one band.
type Waiting struct {
	Requests int
	Bytes    int64
}

// Full returns the size of r's band, including r, when r was Rejected.
func (r *Request) Full() Waiting { return r.full }

func (b *band) waiting(r *Request) Waiting {
	return Waiting{Requests: len(b.all), Bytes: b.bytes + r.Bytes}
}

func (b *band) turn(f *flow) {
	if len(f.requests) > 0 {
		b.order.MoveToBack(f.at)
	}
}

func (b *band) longest() (longest *flow) {
	for _, f := range b.byID {
		if longest == nil || len(f.requests) > len(longest.requests) {
			longest = f
		}
	}
	return longest
}

func (f *flow) add(r *Request)    { heap.Push(f, r) }
func (f *flow) remove(r *Request) { heap.Remove(f, r.index) }

func (f *flow) Len() int { return len(f.requests) }

func (f *flow) Less(i, k int) bool {
	a, b := f.requests[i], f.requests[k]
	if !a.Deadline.Equal(b.Deadline) {
		return !a.Deadline.IsZero() && (b.Deadline.IsZero() || a.Deadline.Before(b.Deadline))
	}
	return a.number < b.number
}

func (f *flow) Swap(i, k int) {
	f.requests[i], f.requests[k] = f.requests[k], f.requests[i]
	f.requests[i].index, f.requests[k].index = i, k
}

func (f *flow) Push(x any) {
	r := x.(*Request)
	r.index = len(f.requests)
	f.requests = append(f.requests, r)
}

func (f *flow) Pop() any {
	r := f.requests[len(f.requests)-1]
	f.requests[len(f.requests)-1] = nil
	f.requests = f.requests[:len(f.requests)-1]
	return r
}
