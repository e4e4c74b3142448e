package extproc

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// DefaultBodies is the default limit of NewBodies, in bytes.
const DefaultBodies = 256 << 20

// ReasonOverloaded is the reason of a 503 if Bodies has no room for a required body.
const ReasonOverloaded = "picker_overloaded"

const (
	chunkBytes   = 512
	scannerBytes = 44 << 10
)

// Bodies bounds the memory of the request bodies that a process holds until their picks. Above the
// bound, picks do not read bodies. In the body mode BUFFERED, gRPC holds the whole body before
// Bodies counts it. So the picker does not request a body that would exceed the bound.
type Bodies struct {
	limit            int64
	held             atomic.Int64
	unread, rejected atomic.Uint64
}

// NewBodies returns Bodies with a limit in bytes; 0 means DefaultBodies.
func NewBodies(limit int64) *Bodies {
	if limit == 0 {
		limit = DefaultBodies
	}
	return &Bodies{limit: limit}
}

// Held returns the bytes held now, including overhead.
func (b *Bodies) Held() int64 { return b.held.Load() }

// Unread counts the picks that read no body because of the bound. Rejected counts the requests that
// got a 503 because of it.
func (b *Bodies) Unread() uint64   { return b.unread.Load() }
func (b *Bodies) Rejected() uint64 { return b.rejected.Load() }

func (b *Bodies) take(n int64, share *int64) bool {
	if b.held.Add(n) > b.limit {
		b.held.Add(-n)
		return false
	}
	*share += n
	return true
}

// room reports whether a body of n bytes fits. It reserves no memory: a client may declare a body
// and never send it.
func (b *Bodies) room(n int64) bool { return n == 0 || b.held.Load()+n+scannerBytes <= b.limit }

func (b *Bodies) give(n int64, share *int64) {
	b.held.Add(-n)
	*share -= n
}

func charged(chunk mem.BufferSlice) int64 { return int64(chunk.Len() + chunkBytes*len(chunk)) }
