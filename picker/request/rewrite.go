package request

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"google.golang.org/grpc/mem"
)

// Splice replaces the bytes from Start to End of a body by With.
type Splice struct {
	Start, End int
	With       []byte
}

// Grown returns by how many bytes splices make a body longer; negative if shorter.
func Grown(splices []Splice) (n int) {
	for _, s := range splices {
		n += len(s.With) - (s.End - s.Start)
	}
	return n
}

// Apply applies sorted, disjoint splices to a body. It copies no bytes: the result consists of
// views of body's buffers, each with its own reference. Apply frees body's references.
func Apply(body mem.BufferSlice, splices []Splice) mem.BufferSlice {
	out := make(mem.BufferSlice, 0, len(body)+2*len(splices))
	at := 0
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
				break // the next buffers have the rest
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

// Target is a model that replaces a request's model.
type Target struct {
	Name   string
	quoted []byte
}

// NewTarget returns the Target with a name.
func NewTarget(name string) *Target {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(name) // no error for a string
	return &Target{Name: name, quoted: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
}

// Replace makes Splices replace the body's model by a target, and makes Facts describe the changed
// request. It returns false if the body names too many models.
func (s *Scanner) Replace(by *Target) bool {
	s.target = by
	return !s.named.tooMany
}

// Splices returns the edits of Replace, RemoveWorkers, RemoveRoute and IncludeUsage, after the last
// Write.
func (s *Scanner) Splices() []Splice {
	out, _ := s.splices(s.removed)
	return out
}

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
	if len(s.usage) > 0 {
		out, sorted = append(out, s.usage...), false
	}
	if !sorted {
		slices.SortFunc(out, func(a, b Splice) int { return cmp.Compare(a.Start, b.Start) })
	}
	return out, remain
}

func (s *Scanner) servedModel() []byte {
	if s.target != nil {
		return s.target.quoted[1 : len(s.target.quoted)-1]
	}
	return s.model
}

// Rewriter replaces the models of a body and removes its members "route" chunk by chunk, while
// Envoy forwards the body.
type Rewriter struct {
	scanner *Scanner
	target  func(model string) *Target
	held    mem.BufferSlice
	at      int
}

// NewRewriter returns a Rewriter that replaces each model by the result of target. If target or its
// result is nil, the model stays. If route is true, the Rewriter also removes each member "route"
// of up to 6 KiB.
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

// Write takes the next chunk, and returns the bytes to send now. end marks the last chunk. Write
// returns false if the body names too many models or is NotUTF8. It frees chunk's references.
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
		case from < w.at: // the first part was already sent
		case w.scanner.size-from > maxValue:
			w.scanner.top.pass()
		default:
			upTo = min(upTo, from)
		}
	}
	splices = w.withRemovals(splices, upTo)
	front, rest := Split(w.held, upTo-w.at)
	w.held, w.at = rest, upTo
	return Apply(front, splices), !tooMany
}

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

// maxValue bounds a model that a Rewriter replaces, as written in JSON with quotes, in bytes.
const maxValue = maxModel + 2

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

// Split cuts a body after its first n bytes. The results take over body's references.
func Split(body mem.BufferSlice, n int) (front, rest mem.BufferSlice) {
	for i, b := range body {
		size := b.Len()
		if size <= n {
			n -= size
			continue
		}
		if n == 0 {
			return body[:i:i], body[i:]
		}
		front = append(body[:i:i], b.Slice(0, n))
		rest = body[i:]
		rest[0] = b.Slice(n, size)
		b.Free()
		return front, rest
	}
	return body, nil
}
