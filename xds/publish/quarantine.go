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

// quarantine finds what is bad in a route configuration that the proxy refuses as a whole, by sending others that are
// mostly good: first what has not changed since the proxy took it last, then half of the rest with it, and so on down to
// the virtual host and in it the route. Each one that it takes is in force at once, so good changes come first, and what
// is not known to be good stays as it was meanwhile. What is bad answers 500 in the end; where the proxy refuses that
// too, because the match itself is bad, it stays as it was.
type quarantine struct {
	of    *cache.Entry // what was refused
	names []*cache.Slot
	whole piece
	// groups are yet to be searched, the next one last.
	groups []*group
	good   string // the version that the proxy has taken last
	// entry is what to send now, and then what follows from the proxy's answer.
	entry *cache.Entry
	then  func(ok bool, words string)
	found []Fault
	// hopeless: what is bad is not in a virtual host.
	hopeless bool
}

// Fault is a part of a route configuration that a proxy refuses.
type Fault struct {
	Host, Route string // names; Route is empty if it is the host itself
	Message     string // the proxy's words
	Owners      []report.Ref
}

// piece is the encoded configuration, a virtual host of it, or a route.
type piece struct {
	level int
	host  string // it is, or is in
	name  string
	raw   []byte // as it should be
	old   []byte // as the proxy had it; nil: it had none
	sends []byte // as it goes now; nil: not at all
	open  bool   // inner goes, within head
	head  []byte // its other fields
	inner []*piece
}

// group is pieces of which some may be bad.
type group struct {
	pieces []*piece
	bad    bool   // some are
	other  *group // is bad if this one is not
	words  string // the proxy's, when it refused them
}

// The fields that hold the pieces of the next level, and those that hold a piece's name, by level.
var (
	fieldInner = []protowire.Number{2, 3} // RouteConfiguration.virtual_hosts, VirtualHost.routes
	fieldName  = []protowire.Number{1, 1, 14}
)

// newQuarantine begins with what was refused and what the proxy had before, nil if that is not known.
func newQuarantine(of, before *cache.Entry, words string) *quarantine {
	q := &quarantine{of: of, names: slices.Clone(of.Names)}
	var old []*resource.Part
	if before != nil {
		q.good, old = before.Version, before.Parts
		for _, n := range before.Names {
			if !slices.Contains(q.names, n) {
				q.names = append(q.names, n)
			}
		}
	}
	suspects := q.whole.takePartsApart(of.Parts, old)
	if q.hopeless = len(suspects) == 0; q.hopeless {
		return q
	}
	q.try(func(ok bool, _ string) {
		if q.hopeless = !ok; ok {
			q.groups = append(q.groups, &group{pieces: suspects, bad: true, words: words})
			q.search()
		}
	})
	return q
}

// over says that there is nothing left to find out.
func (q *quarantine) over() bool { return q.then == nil }

// answer goes on with what the proxy said to the entry.
func (q *quarantine) answer(ok bool, words string) {
	then := q.then
	if q.then = nil; ok {
		q.good = q.entry.Version
	}
	then(ok, words)
}

func (q *quarantine) try(then func(ok bool, words string)) {
	entry := cache.Variant(q.of, q.whole.encode(), q.names)
	if entry.Version == q.good {
		then(true, "")
		return
	}
	q.then, q.entry = then, entry
}

// search goes on with the next group.
func (q *quarantine) search() {
	for len(q.groups) > 0 {
		g := q.groups[len(q.groups)-1]
		q.groups = q.groups[:len(q.groups)-1]
		switch {
		case len(g.pieces) == 0:
		case !g.bad:
			for _, p := range g.pieces {
				p.sends = p.raw
			}
			q.try(func(ok bool, words string) { q.tried(g, ok, words) })
			return
		case len(g.pieces) > 1:
			n := len(g.pieces) / 2
			second := &group{pieces: g.pieces[n:], words: g.words}
			q.groups = append(q.groups, second, &group{pieces: g.pieces[:n], other: second, words: g.words})
		default:
			q.corner(g.pieces[0], g.words)
			return
		}
	}
}

func (q *quarantine) tried(g *group, ok bool, words string) {
	if ok {
		if g.other != nil {
			g.other.bad = true
		}
	} else {
		for _, p := range g.pieces {
			p.sends = p.old
		}
		g.bad, g.words = true, words
		q.groups = append(q.groups, g)
	}
	q.search()
}

// corner deals with one piece that is bad: it looks into a virtual host, and shuts off a route.
func (q *quarantine) corner(p *piece, words string) {
	suspects := p.takeApart()
	if len(suspects) == 0 {
		q.shut(p, words)
		return
	}
	q.try(func(ok bool, _ string) {
		if !ok {
			p.open = false
			q.shut(p, words)
			return
		}
		q.groups = append(q.groups, &group{pieces: suspects, bad: true, words: words})
		q.search()
	})
}

// shut lets a piece answer 500.
func (q *quarantine) shut(p *piece, words string) {
	p.open = false
	fault := Fault{Host: p.host, Message: words, Owners: q.owners(p)}
	if p.level == 2 {
		fault.Route = p.name
	}
	q.found = append(q.found, fault)
	p.sends = p.shutOff()
	q.try(func(ok bool, _ string) {
		if ok {
			q.search()
			return
		}
		p.sends = p.old
		q.try(func(bool, string) { q.search() }) // it was good before
	})
}

// owners are those of the owners whose KIND/NAMESPACE/NAME the names of routes begin with; all, if none does.
func (q *quarantine) owners(p *piece) []report.Ref {
	names := []string{p.name}
	if p.level == 1 {
		_, inner := fields(p.raw, fieldInner[1])
		for _, r := range inner {
			names = append(names, nameOf(r, 2))
		}
	}
	var out []report.Ref
	for _, o := range q.of.Owners() {
		prefix := o.Kind + "/" + o.Key() + "/"
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
			out = append(out, o)
		}
	}
	if len(out) == 0 {
		return q.of.Owners()
	}
	return out
}

// takeApart opens a piece and returns what has changed in it. That goes as it was before.
func (p *piece) takeApart() (changed []*piece) {
	if p.level >= len(fieldInner) {
		return nil
	}
	head, inner := fields(p.raw, fieldInner[p.level])
	_, before := fields(p.old, fieldInner[p.level])
	return p.opened(head, inner, before)
}

// takePartsApart does the same with the whole, which need not be put together for it.
func (p *piece) takePartsApart(parts, old []*resource.Part) (changed []*piece) {
	split := func(parts []*resource.Part) (head []byte, inner [][]byte) {
		for _, part := range parts {
			rest, values := fields(part.Body, fieldInner[p.level])
			head, inner = append(head, rest...), append(inner, values...)
		}
		return head, inner
	}
	head, inner := split(parts)
	_, before := split(old)
	return p.opened(head, inner, before)
}

// opened is a piece in pieces.
func (p *piece) opened(head []byte, inner, before [][]byte) (changed []*piece) {
	p.head = head
	old := make(map[string][]byte, len(before))
	for _, b := range before {
		old[nameOf(b, p.level+1)] = b
	}
	p.open, p.inner = true, nil
	for _, raw := range inner {
		in := &piece{level: p.level + 1, name: nameOf(raw, p.level+1), host: p.host, raw: raw, sends: raw}
		if in.level == 1 {
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

// encode is the piece as it goes now.
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

// shutOff is the piece with nothing in it but for whom it is, and the answer 500; as it was, if that cannot be made.
func (p *piece) shutOff() []byte {
	answer := &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 500}}
	var msg proto.Message
	switch p.level {
	case 1:
		var vh routev3.VirtualHost
		if proto.Unmarshal(p.raw, &vh) != nil {
			return p.old
		}
		all := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
		msg = &routev3.VirtualHost{Name: vh.GetName(), Domains: vh.GetDomains(), Routes: []*routev3.Route{{Match: all, Action: answer}}}
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

// fields splits an encoded message into the values of one field and all the rest.
func fields(b []byte, field protowire.Number) (rest []byte, values [][]byte) {
	for len(b) > 0 {
		num, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return append(rest, b...), values // broken, as the proxy will say too
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
