package extproc

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// DefaultBodies is the default limit of NewBodies, in bytes.
const DefaultBodies = 256 << 20

// ReasonOverloaded is the reason of a 503 if there is no room for a required body.
const ReasonOverloaded = "picker_overloaded"

const (
	chunkBytes   = 512
	scannerBytes = 44 << 10
)

// Bodies bounds the memory of bodies that a process holds until their picks. Above the bound, picks
// read no bodies. In BUFFERED, Envoy is not asked for a body that would not fit, because gRPC holds
// the whole body before it is counted.
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

// Held returns the number of bytes held now, including overhead.
func (b *Bodies) Held() int64 { return b.held.Load() }

// Unread counts picks that read no body because of the bound. Rejected counts requests answered
// with 503.
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

// room reserves nothing, because a client may declare a body and send none.
func (b *Bodies) room(n int64) bool { return n == 0 || b.held.Load()+n+scannerBytes <= b.limit }

func (b *Bodies) give(n int64, share *int64) {
	b.held.Add(-n)
	*share -= n
}

func charged(chunk mem.BufferSlice) int64 { return int64(chunk.Len() + chunkBytes*len(chunk)) }
