package objectid

import (
	"cmp"
	"strings"
)

// Member identifies a pool together with a member of the cluster set. The member exports the pool
// to this cluster, or this cluster exports the pool to the member.
type Member struct {
	Member string
	Pool   Pool
}

// ParseMember parses a result of Member.String. A member's name has no slash.
func ParseMember(text string) (Member, bool) {
	member, rest, ok := strings.Cut(text, "/")
	pool, named := ParsePool(rest)
	return Member{Member: member, Pool: pool}, ok && named && member != ""
}

// String returns "MEMBER/NAMESPACE/NAME".
func (m Member) String() string { return m.Member + "/" + m.Pool.String() }

// Compare orders Members by member, then by pool.
func (m Member) Compare(o Member) int {
	return cmp.Or(strings.Compare(m.Member, o.Member), m.Pool.Compare(o.Pool))
}
