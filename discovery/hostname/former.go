package hostname

import "time"

const (
	formerNames = 1024
	formerTime  = time.Hour
)

// former has the last addresses of unused names. If a route uses such a name again, it need not
// wait for the DNS server.
type former map[string]formerAnswer

type formerAnswer struct {
	addresses []string
	until     time.Time
}

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

func (f former) take(name string, now time.Time) []string {
	a := f[name]
	delete(f, name)
	if now.After(a.until) {
		return nil
	}
	return a.addresses
}
