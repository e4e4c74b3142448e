package publish

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// maxMessage bounds an error detail in bytes: a failed validation quotes the whole resource.
const maxMessage = 1024

// nack also resends resources that the proxy does not reject, because only an ACK confirms that
// Envoy applied them.
func (s *Stream) nack(r *Response, message string, now time.Time) {
	s.lastNack[r.Type] = shorten(message)
	for _, e := range r.Upserts {
		delete(s.carried, e.Slot) // the proxy may have this version or the previous one
		if e.Type == resource.Secret {
			s.suspects.set(e.Slot.ID)
		}
	}
	rejected := rejectedNames(r, message)
	upserts := 0
	for _, p := range r.parts {
		if p.entry != nil {
			upserts++
		}
	}
	for _, p := range r.parts {
		it := p.it
		if s.items[it.slot.Type][it.slot] != it || it.flight != r {
			continue
		}
		it.flight = nil
		switch {
		case p.entry == nil:
			// A removal causes no NACK, so it is sent again if the response also had upserts.
			// Without upserts it would get the same NACK.
			s.dirty(it, upserts > 0 && it.want == nil || it.want != nil, now)
		case it.quarantine != nil && it.quarantine.entry == p.entry:
			s.continueQuarantine(it, false, shorten(message), now)
		case upserts == 1 || slices.Contains(rejected, p.entry.Name):
			s.reject(it, p.entry.Version, message, now)
		default:
			it.alone = len(rejected) == 0
			it.stale = true
			if !it.alone {
				s.noteAccepted(p.entry)
			}
			it.now = true
			s.dirty(it, true, now)
		}
	}
}

func (s *Stream) continueQuarantine(it *item, ok bool, detail string, now time.Time) {
	it.quarantine.answer(ok, detail)
	s.advanceQuarantine(it, now)
}

func (s *Stream) advanceQuarantine(it *item, now time.Time) {
	q := it.quarantine
	if s.dirty(it, !q.done(), now); q.done() {
		it.quarantine, it.faults, it.reported = nil, q.found, true
		s.rejectionsSeq++
	}
}

// transient marks rejections that may end by themselves: another process has the port.
const transient = "Address already in use"

const retryAfter = 5 * time.Second

var isolates = [types]bool{resource.RouteConfiguration: true, resource.Secret: true}

func (s *Stream) reject(it *item, version, message string, now time.Time) {
	it.retry = time.Time{}
	if strings.Contains(message, transient) {
		it.retry = now.Add(retryAfter)
		s.retrying = true
	}
	it.rejected, it.detail = version, shorten(message)
	s.rejectionsSeq++
	if it.have == nil && !it.stale {
		s.unhold(it.slot)
		if it.want == nil {
			s.drop(it) // the proxy never had the removed resource
			return
		}
	}
	it.alone = false
	if isolates[it.slot.Type] && it.want != nil && it.want.Version == version {
		var before *cache.Entry
		if !it.stale {
			before = it.have
		}
		if it.slot.Type == resource.Secret {
			it.quarantine = newSecretQuarantine(it.want, before, it.detail)
		} else {
			it.quarantine = newQuarantine(it.want, before, it.detail)
		}
		s.advanceQuarantine(it, now)
		return
	}
	s.dirty(it, it.want == nil && (it.have != nil || it.stale) ||
		it.want != nil && (it.want.Version != version || s.suspected(it.want, now)), now)
}

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
			s.flushAt(it.retry)
		default:
			it.retry = time.Time{}
			s.dirty(it, true, now)
		}
	}
}

var (
	listed = regexp.MustCompile(`Error adding/updating (?:cluster|listener)\(s\) `)
	quoted = regexp.MustCompile(`^goo\.gle/debug\w*\s+name:\s*"([^"]*)"`)
)

func rejectedNames(r *Response, message string) []string {
	if m := quoted.FindStringSubmatch(message); m != nil && r.carries(m[1]) {
		return m[1:]
	}
	at := listed.FindStringIndex(message)
	if at == nil {
		return nil
	}
	// The text is "a, b: cause". Names may contain these characters, so the text is compared with
	// the response's names.
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

var validationMarks = []string{"Proto constraint validation failed", "caused by "}

func shorten(message string) string {
	if strings.HasPrefix(message, "goo.gle/debug") {
		for _, mark := range validationMarks {
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
