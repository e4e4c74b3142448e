package request

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/mem"
)

// Member is a top-level member of a body that a pick may remove or set.
type Member uint8

const (
	otherMember    Member = iota
	MemberRoute           // "route": whether pickers call an external router
	MemberTokenIDs        // "token_ids": the prompt
	// MemberStreamOptions is "stream_options", which only FindStreamOptions finds.
	MemberStreamOptions
)

type topEvent uint8

const (
	topComma topEvent = 1 + iota
	topKey
	topEnd
)

type topMember struct {
	name    Member
	ordinal int
	comma   int // offset of the comma before the member; 0 for the first member
	key     int
	end     int
	next    int  // offset after the comma that follows the member, or end without a comma
	passed  bool // a part of the member was already sent, so it stays
}

type topMembers struct {
	on      bool
	options bool
	list    []topMember
	count   int
	now     topMember
	pending topEvent
	tooMany bool
}

func (t *topMembers) reset() { *t = topMembers{list: t.list[:0]} }

func (t *topMembers) settle(at int) {
	switch t.pending {
	case topComma:
		if n := len(t.list); n > 0 && t.list[n-1].ordinal == t.count-1 {
			t.list[n-1].next = at
		}
		t.now = topMember{comma: at - 1}
	case topKey:
		t.now = topMember{comma: t.now.comma, passed: t.now.passed, key: at - 1, ordinal: t.count}
		t.count++
	case topEnd:
		switch {
		case t.now.name == otherMember || t.now.passed:
		case len(t.list) < maxSpans:
			t.now.end, t.now.next = at, at
			t.list = append(t.list, t.now)
		default:
			t.tooMany = true
		}
		t.now = topMember{}
	}
	t.pending = 0
}

func (s *Scanner) happened(e topEvent) {
	if s.top.on && s.depth == 1 {
		s.top.pending, s.due = e, true
	}
}

// FindMembers enables RemoveRoute and Edit.TokenIDs. It must precede the first Write.
func (s *Scanner) FindMembers() { s.top.on = true }

// Route returns the value of the body's last member "route"; given is false if it is not a boolean.
// Other gateways use other types; RemoveRoute also removes these.
func (s *Scanner) Route() (route, given bool) {
	return s.route == 't', s.route == 't' || s.route == 'f'
}

// RemoveRoute makes Splices remove all members "route". It returns false if the body has too many.
func (s *Scanner) RemoveRoute() bool {
	s.removed = append(s.removed, MemberRoute)
	return !s.top.tooMany
}

// removals returns splices that remove the named members, and the number of remaining members. A
// member is removed with the comma after it if no remaining member precedes it, and otherwise with
// the comma before it.
func (t *topMembers) removals(names []Member) (out []Splice, remain int) {
	for i := range t.list {
		m := &t.list[i]
		if !slices.Contains(names, m.name) {
			continue
		}
		if m.ordinal == len(out) {
			out = append(out, Splice{m.key, m.next, nil})
		} else {
			out = append(out, Splice{m.comma, m.end, nil})
		}
	}
	return out, t.count - len(out)
}

func (s *Scanner) unfinished(ended bool) (from int, some bool) {
	t := &s.top
	if !t.on || s.expect == nothing || ended {
		return 0, false
	}
	m, n := t.now, len(t.list)
	switch {
	case m.passed:
		return 0, false
	case m == topMember{}:
		if n == 0 || t.list[n-1].name != MemberRoute || t.list[n-1].next != t.list[n-1].end ||
			t.list[n-1].ordinal != t.count-1 || t.routes(n-1) != t.count-1 {
			return 0, false
		}
		return t.list[n-1].key, true
	case m.key == 0:
		m.ordinal = t.count
	case m.name != MemberRoute && (s.depth != 1 || s.expect != aKey):
		return 0, false
	}
	switch {
	case t.routes(n) < m.ordinal:
		return m.comma, true
	case m.key == 0: // the previous removal includes the comma before this member
		return m.comma + 1, true
	}
	return m.key, true
}

func (t *topMembers) routes(n int) (count int) {
	for _, m := range t.list[:n] {
		if m.name == MemberRoute {
			count++
		}
	}
	return count
}

func (t *topMembers) pass() {
	if t.now != (topMember{}) {
		t.now.passed = true
		return
	}
	t.list = t.list[:len(t.list)-1]
}

// Edit has members to add to a body.
type Edit struct {
	// TokenData is a JSON array of token IDs for nvext.token_data; empty for none. It is added if
	// the body has no nvext, or an nvext object without token_data.
	TokenData []byte
	// TokenIDs is a JSON array that replaces the member "token_ids"; empty for none. It needs
	// FindMembers.
	TokenIDs []byte
}

// Edited returns the splices of Splices and of e, sorted, after the last Write.
func (s *Scanner) Edited(body mem.BufferSlice, e Edit) []Splice {
	if s.nvext.body == 0 || s.top.tooMany {
		return s.Splices()
	}
	removed := s.removed
	var front []byte
	if len(e.TokenIDs) > 0 && s.top.on {
		removed = append(slices.Clip(removed), MemberTokenIDs)
		front = slices.Concat([]byte(`"token_ids":`), e.TokenIDs)
	}
	out, remain := s.splices(removed)
	if len(e.TokenData) > 0 {
		switch n := &s.nvext; {
		case n.tokens || n.seen && n.members == 0:
		case n.seen:
			out = append(out,
				Splice{
					n.members, n.members,
					separated(body, n.members, slices.Concat([]byte(`"token_data":`), e.TokenData)),
				})
		default:
			if len(front) > 0 {
				front = append(front, ',')
			}
			front = slices.Concat(front, []byte(`"nvext":{"token_data":`), e.TokenData, []byte("}"))
		}
	}
	if at := s.nvext.body; len(front) > 0 {
		if s.top.on && remain > 0 {
			front = append(front, ',')
		} else if !s.top.on {
			front = separated(body, at, front)
		}
		out = append(out, Splice{at, at, front})
	}
	slices.SortStableFunc(out, func(a, b Splice) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	return out
}

func separated(body mem.BufferSlice, at int, members []byte) []byte {
	if hasMember(body, at) {
		return append(members, ',')
	}
	return members
}
