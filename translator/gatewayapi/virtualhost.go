package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

// VirtualHost returns a virtual host of a filter chain with its routes in order, or nil. attached
// has the routes of the host and of hostnames that cover it. In Gateway API, *.a.com answers
// requests that no route of x.a.com matches, but Envoy tries only one virtual host.
func VirtualHost(gw *model.Gateway, chain, host string, attached []*model.Attachment,
	budget Budget) *model.VirtualHost {
	i := slices.IndexFunc(gw.Listeners, func(l *model.Listener) bool {
		return l.Chain == chain && chain != "" && !l.Stream()
	})
	if i < 0 {
		return nil
	}
	owner := ownerOf(gw, gw.Listeners[i], host)
	if owner == nil || owner.Chain != chain {
		return nil
	}
	vh := &model.VirtualHost{Gateway: gw.Ref.Key(), Chain: chain, Host: host, Listener: owner.Key,
		Owners: []report.Ref{owner.Owner}}
	var all []candidate
	wider := wideRules{allowed: budget.Wider}
	exact := owner.Hostname == host
	for _, a := range attached {
		for _, p := range a.Places {
			if p.Gateway != vh.Gateway || p.Listener != owner.Key {
				continue
			}
			if !slices.ContainsFunc(p.Hosts, func(h string) bool { return covers(h, host) }) {
				continue
			}
			own := slices.Contains(p.Hosts, host)
			if p.Narrow && !own {
				continue
			}
			exact = exact || own
			all = append(all, candidates(a, mostSpecific(a.Hostnames, host), !own)...)
		}
	}
	if !exact {
		return nil
	}
	slices.SortFunc(all, candidate.compare)
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.key] {
			continue
		}
		seen[c.key] = true
		r := model.Route{
			Name: routeName(c.from.Route, c.rule.Name, c.key), Owner: c.from.Route,
			Rule: c.rule.Index, RuleName: c.rule.Name, Match: *c.match, Action: &c.rule.Action,
		}
		if !c.rule.Expressions.IsZero() && (budget.Over(c.from, c.rule.Index) || c.wider && wider.above(c)) {
			r.Match, r.Action = envoy.WithoutExpressions(r.Match), overAction(c.from)
			key := "without expressions: " + matchKey(&r.Match)
			if seen[key] { // many matches only differ in their expressions
				continue
			}
			seen[key] = true
		}
		vh.Routes = append(vh.Routes, r)
		vh.Owners = append(vh.Owners, c.from.Route)
		if c.key == everything {
			break
		}
	}
	vh.Owners = sorted(vh.Owners, report.Ref.Compare)
	return vh
}

func mostSpecific(hostnames []string, host string) (best string) {
	for _, h := range hostnames {
		if covers(h, host) && (best == "" || bySpecificity(h, best) < 0) {
			best = h
		}
	}
	return best
}

type candidate struct {
	host  string
	from  *model.Attachment
	rule  *model.Rule
	index int
	match *model.Match
	key   string
	wider bool // the route has a wider hostname than the virtual host
}

func candidates(a *model.Attachment, host string, wider bool) []candidate {
	var out []candidate
	for i := range a.Rules {
		rule := &a.Rules[i]
		for j := range rule.Matches {
			m := &rule.Matches[j]
			out = append(out, candidate{host, a, rule, j, m, matchKey(m), wider})
		}
	}
	return out
}

type wideRules struct {
	allowed, used model.Expressions
	rules         map[*model.Rule]bool // whether a rule is above the limit
}

func (w *wideRules) above(c candidate) bool {
	if above, asked := w.rules[c.rule]; asked {
		return above
	}
	if w.rules == nil {
		w.rules = map[*model.Rule]bool{}
	}
	next := w.used.Add(c.rule.Expressions)
	w.rules[c.rule] = !next.Within(w.allowed)
	if !w.rules[c.rule] {
		w.used = next
	}
	return w.rules[c.rule]
}

func overAction(a *model.Attachment) *model.Action {
	action := (&ruleBuilder{out: a}).errorAction("The regular expressions of this route are above their budget.")
	return &action
}

var everything = matchKey(&model.Match{PathKind: model.PathPrefix, Path: "/"})

func matchKey(m *model.Match) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %s", m.PathKind, m.Path, m.Method)
	for _, list := range [][]model.ValueMatch{m.Headers, m.Query} {
		b.WriteString(" |")
		sorted := slices.SortedFunc(slices.Values(list),
			func(a, b model.ValueMatch) int { return strings.Compare(a.Name, b.Name) })
		for _, v := range sorted {
			fmt.Fprintf(&b, " %q %t %q", v.Name, v.Regex, v.Value)
		}
	}
	return b.String()
}

// routeName returns "KIND/NAMESPACE/NAME/RULE/HASH": the rule's name, if it has one, and the
// match's hash.
func routeName(owner report.Ref, rule, match string) string {
	parts := []string{owner.Kind, owner.Namespace, owner.Name}
	if rule != "" {
		parts = append(parts, rule)
	}
	return strings.Join(append(parts, fmt.Sprintf("%016x", xxhash.Sum64String(match))), "/")
}
