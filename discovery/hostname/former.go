package hostname

import "time"

const (
	// formerNames bounds the names that are not used now and whose last addresses are kept.
	formerNames = 1024
	// formerTime is how long they are kept.
	formerTime = time.Hour
)

// former holds the last addresses of names that are not used now. A route that returns to a name
// does not wait for its DNS server, which may be away.
type former map[string]formerAnswer

type formerAnswer struct {
	addresses []string
	until     time.Time
}

// keep adds a name that is used no more. Beyond the bound, the name that was used last the longest
// ago goes.
func (f former) keep(name string, addresses []string, now time.Time) {
	if len(addresses) == 0 {
		return
	}
	f[name] = formerAnswer{addresses, now.Add(formerTime)}
	if len(f) <= formerNames {
		return
	}
	first := name
	for other, a := range f {
		if a.until.Before(f[first].until) {
			first = other
		}
	}
	delete(f, first)
}

// take removes a name, and returns its last addresses if they are still kept.
func (f former) take(name string, now time.Time) []string {
	a := f[name]
	delete(f, name)
	if now.After(a.until) {
		return nil
	}
	return a.addresses
}
