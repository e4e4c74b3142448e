package gatewayapi

import (
	"cmp"
	"strings"

	"github.com/penstock-project/penstock/translator/model"
)

// Hostnames are in lower case, and of three forms: "example.com", "*.example.com" (any number of
// labels before the suffix, at least one) and "*" (every host; what an empty hostname of a listener
// or route means).

// covers reports whether pattern matches every host that host matches.
func covers(pattern, host string) bool {
	if pattern == "*" || pattern == host {
		return true
	}
	suffix, wild := strings.CutPrefix(pattern, "*")
	return wild && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

// intersect returns the hosts that both match: the more specific of two hostnames, of which one
// must cover the other.
func intersect(a, b string) (string, bool) {
	switch {
	case covers(a, b):
		return b, true
	case covers(b, a):
		return a, true
	}
	return "", false
}

// bySpecificity orders hostnames as the specification tries them: exact ones first, then wildcards,
// longest first.
func bySpecificity(a, b string) int {
	return cmp.Or(
		cmp.Compare(wildness(a), wildness(b)),
		cmp.Compare(len(b), len(a)),
		strings.Compare(a, b),
	)
}

func wildness(host string) int {
	if strings.HasPrefix(host, "*") {
		return 1
	}
	return 0
}

// Covering lists every hostname whose routes may answer for host, host itself first, then by
// falling specificity: for x.a.com it is x.a.com, *.a.com, *.com and *.
func Covering(host string) []string {
	out := []string{host}
	rest := strings.TrimPrefix(host, "*.")
	if rest == "*" {
		return out
	}
	for {
		_, after, more := strings.Cut(rest, ".")
		if !more {
			return append(out, "*")
		}
		out = append(out, "*."+after)
		rest = after
	}
}

// ownerOf is the listener that a host belongs to: of those with the same port as l that take
// traffic and are distinguished in the same way, the one with the most specific hostname that
// covers the host (Gateway API, "Listener Isolation"). The server name distinguishes both HTTPS and
// TLS listeners.
func ownerOf(gw *model.Gateway, l *model.Listener, host string) *model.Listener {
	var owner *model.Listener
	for _, o := range gw.Listeners {
		if o.Socket() != l.Socket() || o.ByName() != l.ByName() || o.Chain == "" || !covers(o.Hostname, host) {
			continue
		}
		if owner == nil || bySpecificity(o.Hostname, owner.Hostname) < 0 {
			owner = o
		}
	}
	return owner
}
