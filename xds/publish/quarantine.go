package publish

import (
	"bytes"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// quarantine sends variants of a rejected resource, because Envoy accepts or rejects a resource as
// a whole. The first variant has only the parts that have not changed since the last accepted
// version. Further variants add half of the changes, then a quarter, and so on down to single
// virtual hosts and routes. Accepted variants are in force at once; undecided parts stay as they
// were. In the end a rejected part answers 500, or stays as it was if Envoy rejects this, too (an
// invalid match).
type quarantine struct {
	target *cache.Entry
	names  []*cache.Slot
	whole  piece
	groups []*group
	good   string
	// secret is nil for a route configuration.
	secret *secret
	placed bool
	entry  *cache.Entry
	then   func(ok bool, detail string)
	found  []Fault
	// unsplittable means that the cause is not in a virtual host.
	unsplittable bool
}

// Fault is a part of a resource that a proxy rejects.
type Fault struct {
	Host, Route string // Route is "" if the virtual host itself is rejected
	Member      string // member of the cluster set, for a secret
	Message     string
	Owners      []report.Ref
}

type piece struct {
	level int
	host  string // virtual host that is, or contains, the piece
	name  string
	raw   []byte
	old   []byte // bytes at the proxy; nil: absent
	sends []byte // bytes in the next variant; nil: absent
	open  bool
	head  []byte
	inner []*piece
}

// group is a set of pieces that may contain rejected pieces.
type group struct {
	pieces   []*piece
	rejected bool
	other    *group // other half; it has a rejected piece if this half has none
	detail   string
}

// Only virtual hosts can be split, into routes.
const (
	levelHost   = 1
	levelRoute  = 2
	levelMember = 3
)

var (
	fieldInner = []protowire.Number{2, 3} // RouteConfiguration.virtual_hosts, VirtualHost.routes
	fieldName  = []protowire.Number{1, 1, 14}
)

func newQuarantine(target, before *cache.Entry, detail string) *quarantine {
	q := &quarantine{target: target, names: slices.Clone(target.Names)}
	var old []*resource.Part
	if before != nil {
		q.good, old = before.Version, before.Parts
		for _, n := range before.Names {
			if !slices.Contains(q.names, n) {
				q.names = append(q.names, n)
			}
		}
	}
	suspects := q.whole.splitParts(target.Parts, old)
	if q.unsplittable = len(suspects) == 0; q.unsplittable {
		return q
	}
	q.try(func(ok bool, _ string) {
		if q.unsplittable = !ok; ok {
			q.groups = append(q.groups, &group{pieces: suspects, rejected: true, detail: detail})
			q.search()
		}
	})
	return q
}

// Without a search, the last good version or a placeholder is sent.
func (q *quarantine) isSearch() bool { return q.target.Type != resource.Secret || q.secret != nil }

func (q *quarantine) done() bool { return q.then == nil }

func (q *quarantine) answer(ok bool, detail string) {
	then := q.then
	if q.then = nil; ok {
		q.good = q.entry.Version
	}
	then(ok, detail)
}

func (q *quarantine) try(then func(ok bool, detail string)) {
	body := q.encode()
	if body == nil {
		then(true, "")
		return
	}
	entry := cache.Variant(q.target, body, q.names)
	// Envoy keeps the bytes of a rejected secret, so the last good version must be sent again.
	if entry.Version == q.good && (q.secret == nil || q.entry != nil && q.entry.Version == q.good) {
		then(true, "")
		return
	}
	q.then, q.entry = then, entry
}

func (q *quarantine) encode() []byte {
	if q.secret != nil {
		return q.encodeSecret()
	}
	return q.whole.encode()
}

func (q *quarantine) search() {
	for len(q.groups) > 0 {
		g := q.groups[len(q.groups)-1]
		q.groups = q.groups[:len(q.groups)-1]
		switch {
		case len(g.pieces) == 0:
		case !g.rejected:
			for _, p := range g.pieces {
				p.sends = p.raw
			}
			q.try(func(ok bool, detail string) { q.tried(g, ok, detail) })
			return
		case len(g.pieces) > 1:
			n := len(g.pieces) / 2
			second := &group{pieces: g.pieces[n:], detail: g.detail}
			q.groups = append(q.groups, second, &group{pieces: g.pieces[:n], other: second, detail: g.detail})
		default:
			q.isolate(g.pieces[0], g.detail)
			return
		}
	}
}

func (q *quarantine) tried(g *group, ok bool, detail string) {
	if ok {
		if g.other != nil {
			g.other.rejected = true
		}
	} else {
		for _, p := range g.pieces {
			p.sends = p.old
		}
		g.rejected, g.detail = true, detail
		q.groups = append(q.groups, g)
	}
	q.search()
}

func (q *quarantine) isolate(p *piece, detail string) {
	suspects := p.split()
	if len(suspects) == 0 {
		q.disable(p, detail)
		return
	}
	q.try(func(ok bool, _ string) {
		if !ok {
			p.open = false
			q.disable(p, detail)
			return
		}
		q.groups = append(q.groups, &group{pieces: suspects, rejected: true, detail: detail})
		q.search()
	})
}

func (q *quarantine) disable(p *piece, detail string) {
	p.open = false
	fault := Fault{Host: p.host, Message: detail, Owners: q.owners(p)}
	switch p.level {
	case levelRoute:
		fault.Route = p.name
	case levelMember:
		fault.Member = p.name
	}
	q.found = append(q.found, fault)
	p.sends = p.encodeDisabled()
	q.try(func(ok bool, _ string) {
		if ok {
			q.search()
			return
		}
		p.sends = p.old
		q.try(func(bool, string) { q.search() })
	})
}

// owners returns the owners whose KIND/NAMESPACE/NAME/ is a prefix of the name of a route in p. If
// no owner matches, it returns all.
func (q *quarantine) owners(p *piece) []report.Ref {
	names := []string{p.name}
	if p.level == levelHost {
		_, inner := fields(p.raw, fieldInner[1])
		for _, r := range inner {
			names = append(names, nameOf(r, 2))
		}
	}
	var out []report.Ref
	for _, o := range q.target.Owners() {
		prefix := o.Kind + "/" + o.Key() + "/"
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
			out = append(out, o)
		}
	}
	if len(out) == 0 {
		return q.target.Owners()
	}
	return out
}

func (p *piece) split() (changed []*piece) {
	if p.level >= len(fieldInner) {
		return nil
	}
	head, inner := fields(p.raw, fieldInner[p.level])
	_, before := fields(p.old, fieldInner[p.level])
	return p.splitInto(head, inner, before)
}

func (p *piece) splitParts(parts, old []*resource.Part) (changed []*piece) {
	split := func(parts []*resource.Part) (head []byte, inner [][]byte) {
		for _, part := range parts {
			rest, values := fields(part.Body, fieldInner[p.level])
			head, inner = append(head, rest...), append(inner, values...)
		}
		return head, inner
	}
	head, inner := split(parts)
	_, before := split(old)
	return p.splitInto(head, inner, before)
}

func (p *piece) splitInto(head []byte, inner, before [][]byte) (changed []*piece) {
	p.head = head
	old := make(map[string][]byte, len(before))
	for _, b := range before {
		old[nameOf(b, p.level+1)] = b
	}
	p.open, p.inner = true, nil
	for _, raw := range inner {
		in := &piece{level: p.level + 1, name: nameOf(raw, p.level+1), host: p.host, raw: raw, sends: raw}
		if in.level == levelHost {
			in.host = in.name
		}
		if in.old = old[in.name]; !bytes.Equal(in.old, raw) {
			in.sends = in.old
			changed = append(changed, in)
		}
		p.inner = append(p.inner, in)
	}
	return changed
}

func (p *piece) encode() []byte {
	if !p.open {
		return p.sends
	}
	out := slices.Clone(p.head)
	for _, in := range p.inner {
		if body := in.encode(); body != nil {
			out = protowire.AppendTag(out, fieldInner[p.level], protowire.BytesType)
			out = protowire.AppendBytes(out, body)
		}
	}
	return out
}

func (p *piece) encodeDisabled() []byte {
	if p.level == levelMember {
		return nil
	}
	answer := &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 500}}
	var msg proto.Message
	switch p.level {
	case levelHost:
		var vh routev3.VirtualHost
		if proto.Unmarshal(p.raw, &vh) != nil {
			return p.old
		}
		all := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
		msg = &routev3.VirtualHost{Name: vh.GetName(), Domains: vh.GetDomains(),
			Routes: []*routev3.Route{{Match: all, Action: answer}}}
	default:
		var r routev3.Route
		if proto.Unmarshal(p.raw, &r) != nil {
			return p.old
		}
		msg = &routev3.Route{Name: r.GetName(), Match: r.GetMatch(), Action: answer}
	}
	body, err := resource.Marshal(msg)
	if err != nil {
		return p.old
	}
	return body
}

func fields(b []byte, field protowire.Number) (rest []byte, values [][]byte) {
	for len(b) > 0 {
		num, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return append(rest, b...), values
		}
		if num == field {
			_, _, tag := protowire.ConsumeTag(b)
			v, _ := protowire.ConsumeBytes(b[tag:n])
			values = append(values, v)
		} else {
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	return rest, values
}

func nameOf(b []byte, level int) string {
	_, values := fields(b, fieldName[level])
	if len(values) == 0 {
		return ""
	}
	return string(values[0])
}
