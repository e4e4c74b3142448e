package request

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

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

// Apply returns a body with splices, which are sorted and do not overlap. It joins and copies
// nothing: the result has views of body's buffers, each with a reference of its own, and the bytes
// of With. It consumes body's references.
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

// Replace has the body's model replaced by a target: in Facts, which count as those of a request
// for it, and in Splices. It returns false if the body names its model too often.
func (s *Scanner) Replace(by *Target) bool {
	s.target = by
	return !s.named.tooMany
}

// Splices are what Replace, RemoveWorkers and RemoveRoute have asked for, once all of the body is
// written.
func (s *Scanner) Splices() []Splice {
	out, _ := s.splices(s.removed)
	return out
}

// splices is Splices with some members removed. It also returns how many members remain, if
// FindMembers was called.
func (s *Scanner) splices(removed []Member) (out []Splice, remain int) {
	if s.top.on {
		out, remain = s.top.removals(removed)
	}
	sorted := len(out) == 0
	if s.target != nil {
		for _, at := range s.named.list {
			out = append(out, Splice{at.start, at.end, s.target.quoted})
		}
	}
	if s.bare && len(s.nvext.removed.list) > 0 {
		sorted = false
		for _, at := range s.nvext.removed.list {
			out = append(out, Splice{at.start, at.end, null})
		}
	}
	if !sorted {
		slices.SortFunc(out, func(a, b Splice) int { return cmp.Compare(a.Start, b.Start) })
	}
	return out, remain
}

// servedModel is the model that the server gets, as it is written.
func (s *Scanner) servedModel() []byte {
	if s.target != nil {
		return s.target.quoted[1 : len(s.target.quoted)-1]
	}
	return s.model
}

// Rewriter replaces the models of a body that is passed on before its end is known, and removes its
// members "route". NewRewriter returns one.
type Rewriter struct {
	scanner *Scanner
	target  func(model string) *Target
	held    mem.BufferSlice // what is not passed on: the beginning of a value that has not ended
	at      int             // the offset of held in the body
}

// NewRewriter returns a Rewriter that replaces each model by what target returns for it; nil: it
// stays. A nil target replaces none. With route it removes each member "route" whose name and value
// take up to 6 KiB.
func NewRewriter(target func(model string) *Target, route bool) *Rewriter {
	w := &Rewriter{scanner: New(OtherKind), target: target}
	if w.scanner.top.on = route; target == nil {
		w.target = func(string) *Target { return nil }
	}
	return w
}

// Release ends the use of w.
func (w *Rewriter) Release() {
	w.held.Free()
	w.held = nil
	w.scanner.Release()
}

// Write returns what is to be passed on in place of the next chunk, and false if the body names its
// model too often, or is NotUTF8. It consumes chunk's references.
func (w *Rewriter) Write(chunk mem.BufferSlice, end bool) (mem.BufferSlice, bool) {
	for _, b := range chunk {
		w.scanner.Write(b.ReadOnlyData())
	}
	w.held = append(w.held, chunk...)
	var splices []Splice
	for _, s := range w.scanner.named.list {
		if s.start < w.at || s.end-s.start > maxValue {
			continue
		}
		if t := w.targetOf(s); t != nil {
			splices = append(splices, Splice{s.start - w.at, s.end - w.at, t.quoted})
		}
	}
	tooMany := w.scanner.named.tooMany || w.scanner.top.tooMany || w.scanner.NotUTF8()
	w.scanner.named.list = w.scanner.named.list[:0]
	upTo := w.scanner.size
	if n := &w.scanner.named; n.reading && !end && n.start >= w.at && upTo-n.start <= maxValue {
		upTo = n.start
	}
	if from, some := w.scanner.unfinished(end); some {
		switch {
		case from < w.at: // it began too long ago
		case w.scanner.size-from > maxValue:
			w.scanner.top.pass()
		default:
			upTo = min(upTo, from)
		}
	}
	splices = w.withRemovals(splices, upTo)
	front, rest := split(w.held, upTo-w.at)
	w.held, w.at = rest, upTo
	return Apply(front, splices), !tooMany
}

// withRemovals adds the removals of members "route" that end before upTo and have not been passed
// on.
func (w *Rewriter) withRemovals(splices []Splice, upTo int) []Splice {
	if len(w.scanner.top.list) == 0 {
		return splices
	}
	removals, _ := w.scanner.top.removals([]Member{MemberRoute})
	for _, s := range removals {
		if s.Start >= w.at && s.End <= upTo {
			splices = append(splices, Splice{s.Start - w.at, s.End - w.at, nil})
		}
	}
	slices.SortFunc(splices, func(a, b Splice) int { return cmp.Compare(a.Start, b.Start) })
	return splices
}

// maxValue is the length of the longest model that is replaced, as written, in bytes.
const maxValue = maxModel + 2

// targetOf reads a model that is held.
func (w *Rewriter) targetOf(s span) *Target {
	raw := make([]byte, 0, s.end-s.start)
	at := w.at
	for _, b := range w.held {
		from, to := max(s.start-at, 0), min(s.end-at, b.Len())
		if from < to {
			raw = append(raw, b.ReadOnlyData()[from:to]...)
		}
		at += b.Len()
	}
	if raw[0] != '"' {
		return nil
	}
	if name := unquote(raw[1 : len(raw)-1]); name != "" {
		return w.target(name)
	}
	return nil
}

// split cuts a body behind its first n bytes. It consumes body's references.
func split(body mem.BufferSlice, n int) (front, rest mem.BufferSlice) {
	for i, b := range body {
		size := b.Len()
		if size <= n {
			n -= size
			continue
		}
		if n == 0 {
			return body[:i:i], append(rest, body[i:]...)
		}
		front = append(body[:i:i], b.Slice(0, n))
		rest = append(append(rest, b.Slice(n, size)), body[i+1:]...)
		b.Free()
		return front, rest
	}
	return body, nil
}
