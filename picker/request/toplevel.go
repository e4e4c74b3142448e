package request

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/mem"
)

// Member is a member of a body's top-level object that a pick removes or sets.
type Member uint8

// The members.
const (
	otherMember    Member = iota
	MemberRoute           // "route": whether a router outside is asked. It is for pickers.
	MemberTokenIDs        // "token_ids": the prompt's
)

// topEvent is what the byte before has done to a top-level member.
type topEvent uint8

const (
	topComma topEvent = 1 + iota // it is the comma behind one
	topKey                       // it opens the key of one
	topEnd                       // the value of one ends
)

// topMember is where a member is in a body.
type topMember struct {
	name    Member
	ordinal int  // among all members
	comma   int  // the offset of the comma before; 0 for the first
	key     int  // the offset of its key
	end     int  // the offset behind its value
	next    int  // the offset behind the comma that follows; end without one
	passed  bool // its beginning is passed on, so that it stays
}

// topMembers are the top-level members of a body.
type topMembers struct {
	on      bool
	list    []topMember // those with a name
	count   int         // of all
	now     topMember   // that is being read
	pending topEvent
	tooMany bool
}

func (t *topMembers) reset() { *t = topMembers{list: t.list[:0]} }

// settle notes an event once its place is known: at is the offset behind the byte.
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

// happened notes an event of a top-level member.
func (s *Scanner) happened(e topEvent) {
	if s.top.on && s.depth == 1 {
		s.top.pending, s.due = e, true
	}
}

// FindMembers has the scanner find the members that Remove and Edited are about. It is called
// before the first Write.
func (s *Scanner) FindMembers() { s.top.on = true }

// Route returns the body's member "route", and whether it is true or false. Any other value counts
// as none, and is removed as well: other gateways give the member other meanings. Of several the
// last counts.
func (s *Scanner) Route() (route, given bool) {
	return s.route == 't', s.route == 't' || s.route == 'f'
}

// RemoveRoute has Splices remove the member "route". It returns false if the body has too many.
func (s *Scanner) RemoveRoute() bool {
	s.removed = append(s.removed, MemberRoute)
	return !s.top.tooMany
}

// removals returns the splices that remove members, and how many members remain. What is left is an
// object if the body is one: the commas between the members that remain stay. Members before the
// first of these go with the comma behind them, all others with the one before.
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

// unfinished returns where a member begins that is not read far enough to be passed on; false if
// there is none. ended: no more of the body follows.
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
		// A member at the beginning goes with the comma behind it.
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
	case m.key == 0: // the comma goes with the member before
		return m.comma + 1, true
	}
	return m.key, true
}

// routes returns how many of the first n members with a name are "route".
func (t *topMembers) routes(n int) (count int) {
	for _, m := range t.list[:n] {
		if m.name == MemberRoute {
			count++
		}
	}
	return count
}

// pass has the member stay that is read, or was read last.
func (t *topMembers) pass() {
	if t.now != (topMember{}) {
		t.now.passed = true
		return
	}
	t.list = t.list[:len(t.list)-1]
}

// Edit is what the answer to a pick adds to a body.
type Edit struct {
	// TokenData are token IDs, a JSON array, for nvext.token_data. A body that is no object, or has
	// token IDs or another nvext than an object there, does not get them.
	TokenData []byte
	// TokenIDs are the same for the member "token_ids", in place of those that the body has. It
	// needs FindMembers.
	TokenIDs []byte
}

// Edited returns the splices of Splices and those of an Edit, for the body as it was written.
func (s *Scanner) Edited(body mem.BufferSlice, e Edit) []Splice {
	if s.nvext.body == 0 || s.top.tooMany {
		return s.Splices()
	}
	removed := s.removed
	var front []byte // new members, at the beginning of the body
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

// separated appends a comma to members of an object if others follow an offset in it.
func separated(body mem.BufferSlice, at int, members []byte) []byte {
	if hasMember(body, at) {
		return append(members, ',')
	}
	return members
}
