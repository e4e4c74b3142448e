package extproc

import (
	"sync"

	"google.golang.org/grpc/mem"
)

const replyBytes = 1 << 10

// reply is one encoded ProcessingResponse, whose buffers gRPC frees once sent.
type reply struct{ bufs mem.BufferSlice }

// pooledReply is a reply for one stream. It returns to its pool when gRPC frees its only buffer,
// possibly after the stream's end: gRPC's writer runs concurrently. After the last Free, gRPC reads
// neither the buffer nor bufs.
type pooledReply struct {
	reply
	one  [1]mem.Buffer
	view []byte
	// The unused second half exists because gRPC pools no smaller buffer.
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

// It is unused.
func (*pooledReply) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

func newWriter(size int) writer { return writer{buf: make([]byte, size), at: size} }

// done returns an unpooled reply, which several streams may send.
func (w *writer) done() *reply {
	return &reply{bufs: mem.BufferSlice{mem.SliceBuffer(w.buf[w.at:])}}
}
