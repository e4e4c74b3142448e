package xdstest

import "github.com/penstock-project/penstock/xds/resource"

// HasUnacked reports whether resources from a partly rejected response are in force, although the
// stream ended before an ACK.
func (f *Fake) HasUnacked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.state.unacked) > 0
}

func (f *Fake) Secret(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.state.active[resource.Ref{Type: resource.Secret, Name: name}]; a != nil {
		return a.body
	}
	return nil
}
