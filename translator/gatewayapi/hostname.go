package gatewayapi

import (
	"cmp"
	"strings"

	"github.com/penstock-project/penstock/translator/model"
)

// Hostnames are in lower case: "example.com", "*.example.com" (one or more labels before the
// suffix) and "*" (every host; also for an empty hostname).

func covers(pattern, host string) bool {
	if pattern == "*" || pattern == host {
		return true
	}
	suffix, wild := strings.CutPrefix(pattern, "*")
	return wild && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

func intersect(a, b string) (string, bool) {
	switch {
	case covers(a, b):
		return b, true
	case covers(b, a):
		return a, true
	}
	return "", false
}

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

// Covering lists the hostnames whose routes may answer for host, most specific first. For x.a.com
// they are x.a.com, *.a.com, *.com and *.
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
