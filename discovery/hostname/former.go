package hostname

import "time"

const (
	// formerNames bounds the unused names whose last addresses are kept.
	formerNames = 1024
	// formerTime is how long they are kept.
	formerTime = time.Hour
)

// former holds the last addresses of unused names. A route that returns to a name does not wait for
// its DNS server, which may be unreachable.
type former map[string]formerAnswer

type formerAnswer struct {
	addresses []string
	until     time.Time
}

// keep adds an unused name. Beyond the bound, it drops the name that has been unused for longest.
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

// take removes a name and returns its last addresses if they are still kept.
func (f former) take(name string, now time.Time) []string {
	a := f[name]
	delete(f, name)
	if now.After(a.until) {
		return nil
	}
	return a.addresses
}
