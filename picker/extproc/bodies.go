package extproc

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// DefaultBodies is the default of NewBodies: 256 MiB.
const DefaultBodies = 256 << 20

// ReasonOverloaded is the reason of a 503: the bodies that all streams hold are at their limit, and the pool's picker cannot do
// without this one.
const ReasonOverloaded = "picker_overloaded"

const (
	// A chunk of a few bytes occupies a pooled buffer, and its view.
	chunkBytes = 512
	// A request.Scanner.
	scannerBytes = 44 << 10
)

// Bodies bounds the bodies that the streams of a process hold while picks wait for them. Above the bound picks do without bodies.
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

// Unread returns how many picks did without a body because of the bound, Rejected how many requests were answered 503.
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

// give returns n of what a stream holds.
func (b *Bodies) give(n int64, of *int64) {
	b.held.Add(-n)
	*of -= n
}

// charged is what a chunk counts for.
func charged(chunk mem.BufferSlice) int64 { return int64(chunk.Len() + chunkBytes*len(chunk)) }
