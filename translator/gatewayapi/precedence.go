package gatewayapi

import (
	"cmp"
	"strings"

	"github.com/penstock-project/penstock/translator/model"
)

func (c candidate) compare(o candidate) int {
	byPath := cmp.Or(
		cmp.Compare(pathRank(c.match), pathRank(o.match)),
		cmp.Compare(len(o.match.Path), len(c.match.Path)),
		cmp.Compare(methodRank(c.match), methodRank(o.match)),
	)
	if g, other := c.match.GRPC, o.match.GRPC; g != nil && other != nil {
		byPath = cmp.Or(cmp.Compare(len(other.Service), len(g.Service)), cmp.Compare(len(other.Method), len(g.Method)))
	}
	return cmp.Or(
		bySpecificity(c.host, o.host),
		byPath,
		cmp.Compare(len(o.match.Headers), len(c.match.Headers)),
		cmp.Compare(len(o.match.Query), len(c.match.Query)),
		cmp.Compare(c.from.Created, o.from.Created),
		strings.Compare(c.from.Route.Key(), o.from.Route.Key()),
		strings.Compare(c.from.Route.Kind, o.from.Route.Kind),
		cmp.Compare(c.rule.Index, o.rule.Index),
		cmp.Compare(c.index, o.index),
	)
}

// Gateway API leaves the rank of regular expressions open. If they ranked after prefixes, any rule
// for "/" would hide them.
func pathRank(m *model.Match) int {
	switch m.PathKind {
	case model.PathExact:
		return 0
	case model.PathRegex:
		return 1
	}
	return 2
}

func methodRank(m *model.Match) int {
	if m.Method != "" {
		return 0
	}
	return 1
}
