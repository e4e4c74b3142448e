package extproc

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// DefaultBodies is the default limit of NewBodies, in bytes.
const DefaultBodies = 256 << 20

// ReasonOverloaded is the reason of a 503: too many bodies are held, and the pool's picker needs
// this request's body.
const ReasonOverloaded = "picker_overloaded"

const (
	chunkBytes   = 512 // bytes of a pooled buffer and its view, for a chunk of a few bytes
	scannerBytes = 44 << 10
)

// Bodies bounds the memory of bodies that the streams of a process hold until their picks. Above
// the bound, picks read no bodies.
//
// gRPC holds a message until it is complete, and only then it is counted here. In BUFFERED, Envoy
// sends a whole body after the response to its headers, so Envoy is not asked for a body that would
// not fit. Bodies in flight are bounded by the large bodies that Envoys may hold (package upload),
// and by 32 MiB for each message.
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

// Held returns the number of bytes that are held now, including overhead.
func (b *Bodies) Held() int64 { return b.held.Load() }

// Unread counts picks that did not read a body because of the bound. Rejected counts requests that
// were answered with 503.
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

// room reports whether a body of n bytes (0 means unknown) would fit. It reserves nothing, because
// a client may declare a body and send none.
func (b *Bodies) room(n int64) bool { return n == 0 || b.held.Load()+n+scannerBytes <= b.limit }

func (b *Bodies) give(n int64, share *int64) {
	b.held.Add(-n)
	*share -= n
}

func charged(chunk mem.BufferSlice) int64 { return int64(chunk.Len() + chunkBytes*len(chunk)) }
