package request

import (
	"bytes"
	"encoding/json"

	"google.golang.org/grpc/mem"
)

// Splice replaces the bytes from Start to End of a body, as offsets in it, by With.
type Splice struct {
	Start, End int
	With       []byte
}

// Grown is by how many bytes splices lengthen a body.
func Grown(splices []Splice) (n int) {
	for _, s := range splices {
		n += len(s.With) - (s.End - s.Start)
	}
	return n
}

// Apply returns a body with splices, which are sorted and do not overlap. It joins and copies nothing: the result has views of body's
// buffers, each with a reference of its own, and the bytes of With. It consumes body's references.
func Apply(body mem.BufferSlice, splices []Splice) mem.BufferSlice {
	out := make(mem.BufferSlice, 0, len(body)+2*len(splices))
	at := 0 // the offset in the body of the next buffer
	for _, buf := range body {
		size, from := buf.Len(), 0
		for len(splices) > 0 {
			s := &splices[0]
			if s.Start > at+size || s.Start == at+size && s.Start != s.End {
				break
			}
			if start := s.Start - at; start >= from {
				out = view(out, buf, from, start)
				if len(s.With) > 0 {
					out = append(out, mem.SliceBuffer(s.With))
				}
			}
			if from = max(s.End-at, from); from > size {
				from = size
			}
			if s.End > at+size {
				break // the rest of it is in the next buffers
			}
			splices = splices[1:]
		}
		out = view(out, buf, from, size)
		at += size
		buf.Free()
	}
	return out
}

func view(out mem.BufferSlice, buf mem.Buffer, from, to int) mem.BufferSlice {
	if from >= to {
		return out
	}
	return append(out, buf.Slice(from, to))
}

// Target is a model by which that of a request is replaced.
type Target struct {
	Name   string
	quoted []byte // as a JSON string
}

// NewTarget returns a Target. It escapes no more of the name than JSON demands.
func NewTarget(name string) *Target {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(name) // a string always has a form
	return &Target{Name: name, quoted: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
}
