package extproc

import (
	"sync"

	"google.golang.org/grpc/mem"
)

const replyBytes = 1 << 10

// reply is an encoded ProcessingResponse. gRPC frees its buffers after sending.
type reply struct{ bufs mem.BufferSlice }

// pooledReply is a reply for one stream. It returns to its pool when gRPC frees its only buffer,
// perhaps after the stream's end.
type pooledReply struct {
	reply
	one  [1]mem.Buffer
	view []byte
	// gRPC returns only buffers above 1 KiB to their pool. So memory has an unused second half.
	memory [2*replyBytes + 1]byte
}

var replies = sync.Pool{New: func() any { return new(pooledReply) }}

func newReply() *pooledReply { return replies.Get().(*pooledReply) }

func (r *pooledReply) writer() writer { return writer{buf: r.memory[:replyBytes], at: replyBytes} }

func (r *pooledReply) set(w *writer) *reply {
	if len(w.buf) != replyBytes {
		replies.Put(r)
		return w.done()
	}
	r.view = r.memory[w.at:replyBytes]
	r.one[0] = mem.NewBuffer(&r.view, r)
	r.bufs = r.one[:]
	return &r.reply
}

func (r *pooledReply) Put(*[]byte) {
	r.bufs, r.one[0], r.view = nil, nil, nil
	replies.Put(r)
}

// Get implements mem.BufferPool. gRPC never calls it.
func (*pooledReply) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

func newWriter(size int) writer { return writer{buf: make([]byte, size), at: size} }

// done returns a reply that is not pooled, so several streams may send it.
func (w *writer) done() *reply {
	return &reply{bufs: mem.BufferSlice{mem.SliceBuffer(w.buf[w.at:])}}
}
