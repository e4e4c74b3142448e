package extproc

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// DefaultBodies is the default of NewBodies: 256 MiB.
const DefaultBodies = 256 << 20

// ReasonOverloaded is the reason of a 503: the bodies that all streams hold are at their limit, and
// the pool's picker cannot do without this one.
const ReasonOverloaded = "picker_overloaded"

const (
	// A chunk of a few bytes occupies a pooled buffer, and its view.
	chunkBytes = 512
	// A request.Scanner.
	scannerBytes = 44 << 10
)

// Bodies bounds the bodies that the streams of a process hold while picks wait for them. Above the
// bound picks do without bodies.
//
// gRPC holds a message until it is whole, before it is counted here. Envoy sends a body in BUFFERED
// once it has all of it, and once its headers are answered: it is not asked for a body that would
// not fit. What it was asked for before, and what is in flight, is bounded by what Envoys may hold
// of large bodies (package upload), and by 32 MiB a message.
type Bodies struct {
	limit            int64
	held             atomic.Int64
	unread, rejected atomic.Uint64
}

// NewBodies returns a bound in bytes; 0 is DefaultBodies.
func NewBodies(limit int64) *Bodies {
	if limit == 0 {
		limit = DefaultBodies
	}
	return &Bodies{limit: limit}
}

// Held returns the bytes held now, with what holding them takes.
func (b *Bodies) Held() int64 { return b.held.Load() }

// Unread returns how many picks did without a body because of the bound, Rejected how many requests
// were answered 503.
func (b *Bodies) Unread() uint64   { return b.unread.Load() }
func (b *Bodies) Rejected() uint64 { return b.rejected.Load() }

// take adds n to what a stream holds. It returns false, and adds nothing, if that is too much.
func (b *Bodies) take(n int64, of *int64) bool {
	if b.held.Add(n) > b.limit {
		b.held.Add(-n)
		return false
	}
	*of += n
	return true
}

// room reports whether a body of n bytes would fit now; one of unknown length, 0, may. It reserves
// nothing: a client may declare a body and send none.
func (b *Bodies) room(n int64) bool { return n == 0 || b.held.Load()+n+scannerBytes <= b.limit }

// give returns n of what a stream holds.
func (b *Bodies) give(n int64, of *int64) {
	b.held.Add(-n)
	*of -= n
}

// charged is what a chunk counts for.
func charged(chunk mem.BufferSlice) int64 { return int64(chunk.Len() + chunkBytes*len(chunk)) }
