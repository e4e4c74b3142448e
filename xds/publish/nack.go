package publish

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// maxMessage bounds what is kept of a proxy's words: a failed validation quotes the whole resource.
const maxMessage = 1024

// nack takes in that a proxy refused a response. What is bad stays away from it at that version; the good ones are
// sent again, also where they were applied: the proxy counts as its own only what it has ACKed (DELIVERY 3).
func (s *Stream) nack(r *Response, message string, now time.Time) {
	s.lastNack[r.Type] = shorten(message)
	for _, e := range r.Upserts {
		delete(s.carried, e.Slot) // it may have this version, or still the one before
	}
	bad := blamed(r, message)
	upserts := 0
	for _, p := range r.parts {
		if p.entry != nil {
			upserts++
		}
	}
	for _, p := range r.parts {
		it := p.it
		if s.items[it.slot.Type][it.slot] != it || it.flight != r {
			continue // not asked for any more, or already superseded
		}
		it.flight = nil
		switch {
		case p.entry == nil:
			// The removals of a refused response were not its fault. One of removals alone would be refused again.
			s.dirty(it, upserts > 0 && it.want == nil || it.want != nil, now)
		case it.cut != nil && it.cut.entry == p.entry:
			s.lookInto(it, false, shorten(message), now)
		case upserts == 1 || slices.Contains(bad, p.entry.Name):
			s.reject(it, p.entry.Version, message, now)
		default:
			it.alone = len(bad) == 0
			it.stale = true // it may have been applied
			if !it.alone {
				s.nowHas(p.entry)
			}
			it.now = true
			s.dirty(it, true, now)
		}
	}
}

// lookInto goes on with a quarantine after the proxy's answer.
func (s *Stream) lookInto(it *item, ok bool, words string, now time.Time) {
	it.cut.answer(ok, words)
	s.lookFurther(it, now)
}

func (s *Stream) lookFurther(it *item, now time.Time) {
	q := it.cut
	if s.dirty(it, !q.over(), now); q.over() {
		it.cut, it.faults = nil, q.found
		s.news++
	}
}

// passing are refusals that may end without a change of ours: somebody else holds the port, for now.
const passing = "Address already in use"

// retryAfter is when such a resource is sent again.
const retryAfter = 5 * time.Second

func (s *Stream) reject(it *item, version, message string, now time.Time) {
	it.retry = time.Time{}
	if strings.Contains(message, passing) {
		it.retry = now.Add(retryAfter)
		s.retrying = true
	}
	it.bad, it.reason = version, shorten(message)
	s.news++
	if it.have == nil && !it.stale {
		s.unhold(it.slot)
		if it.want == nil {
			s.drop(it) // gone meanwhile, and it never was there
			return
		}
	}
	it.alone = false
	if it.slot.Type == resource.RouteConfiguration && it.want != nil && it.want.Version == version {
		var before *cache.Entry
		if !it.stale {
			before = it.have
		}
		it.cut = newQuarantine(it.want, before, it.reason)
		s.lookFurther(it, now)
		return
	}
	s.dirty(it, it.want == nil && (it.have != nil || it.stale) || it.want != nil && it.want.Version != version, now)
}

// retry makes due what was refused in passing.
func (s *Stream) retry(now time.Time) {
	if !s.retrying {
		return
	}
	s.retrying = false
	for _, it := range s.items[resource.Listener] {
		switch {
		case it.retry.IsZero() || it.dirty || it.flight != nil || it.want == nil:
		case now.Before(it.retry):
			s.retrying = true
			s.wakeAt(it.retry)
		default:
			it.retry = time.Time{}
			s.dirty(it, true, now)
		}
	}
}

// Where Envoy's texts say which resources they are about.
var (
	listed = regexp.MustCompile(`Error adding/updating (?:cluster|listener)\(s\) `)
	quoted = regexp.MustCompile(`^goo\.gle/debug\w*\s+name:\s*"([^"]*)"`)
)

// blamed are the names in a text that are names in the response; none if it does not say.
func blamed(r *Response, message string) []string {
	if m := quoted.FindStringSubmatch(message); m != nil && r.carries(m[1]) {
		return m[1:]
	}
	at := listed.FindStringIndex(message)
	if at == nil {
		return nil
	}
	// "a, b: what is wrong": names may hold any of these characters, so only what was sent can tell where one ends.
	var out []string
	rest := message[at[1]:]
	for {
		name := ""
		for _, p := range r.parts {
			n := p.it.slot.Name
			if len(n) > len(name) && (strings.HasPrefix(rest, n+", ") || strings.HasPrefix(rest, n+": ")) {
				name = n
			}
		}
		if name == "" {
			return out
		}
		out = append(out, name)
		more := strings.HasPrefix(rest[len(name):], ", ")
		rest = rest[len(name)+2:]
		if !more {
			return out
		}
	}
}

func (r *Response) carries(name string) bool {
	return slices.ContainsFunc(r.parts, func(p part) bool { return p.entry != nil && p.it.slot.Name == name })
}

// dumped is where a failed validation stops quoting the resource and says what is wrong.
var dumped = []string{"Proto constraint validation failed", "caused by "}

// shorten cuts the quoted resource out of a failed validation, and bounds the rest.
func shorten(message string) string {
	if strings.HasPrefix(message, "goo.gle/debug") {
		for _, mark := range dumped {
			if i := strings.LastIndex(message, mark); i >= 0 {
				message = message[i:]
				break
			}
		}
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + " [...]"
	}
	return message
}
