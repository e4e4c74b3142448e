package extproc

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// replyBytes is what nearly all replies fit in.
const replyBytes = 1 << 10

// reply is one encoded ProcessingResponse; gRPC frees its buffers once they are sent.
type reply struct{ bufs mem.BufferSlice }

// pooledReply is a reply for one stream. It returns to its pool when gRPC frees its only buffer,
// which may be after the end of the stream: gRPC's writer runs beside it. After the last Free gRPC
// reads neither the buffer nor bufs.
type pooledReply struct {
	reply
	one  [1]mem.Buffer // bufs
	view []byte        // of memory
	// The second half is there because gRPC pools no buffer of less capacity. Nothing is written to
	// it.
	memory [2*replyBytes + 1]byte
}

var replies = sync.Pool{New: func() any { return new(pooledReply) }}

func newReply() *pooledReply { return replies.Get().(*pooledReply) }

// writer returns a writer for the message, which set takes.
func (r *pooledReply) writer() writer { return writer{buf: r.memory[:replyBytes], at: replyBytes} }

// set completes the reply. The caller may use it until it is sent.
func (r *pooledReply) set(w *writer) *reply {
	if len(w.buf) != replyBytes { // it did not fit
		replies.Put(r)
		return w.done()
	}
	r.view = r.memory[w.at:replyBytes]
	r.one[0] = mem.NewBuffer(&r.view, r)
	r.bufs = r.one[:]
	return &r.reply
}

// Put implements mem.BufferPool: gRPC has freed the buffer.
func (r *pooledReply) Put(*[]byte) {
	r.bufs, r.one[0], r.view = nil, nil, nil
	replies.Put(r)
}

// Get implements mem.BufferPool, of which a reply uses Put alone.
func (*pooledReply) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

func newWriter(size int) writer { return writer{buf: make([]byte, size), at: size} }

// done returns a reply that is not pooled, and that several streams may send.
func (w *writer) done() *reply {
	return &reply{bufs: mem.BufferSlice{mem.SliceBuffer(w.buf[w.at:])}}
}
