package endpoint

import (
	"testing"
	"time"
)

func TestLease_PartsEndWithItsFirstTokenAndItsEnd(t *testing.T) {
	for what, end := range map[string]func(*Lease){
		"the first token": func(l *Lease) { l.Begun(time.Second) },
		"the end":         func(l *Lease) { l.Release() },
	} {
		_, first, second := twoEndpoints(nil)
		leases := NewLeases("me", time.Hour)
		lease := leases.Open(first, Holder{}, Work{}, 0, time.Now())
		lease.AddParts(leases.Open(second, Holder{}, Work{Tokens: 600, Rate: 1000}, 0, time.Now()))
		if s := second.State(); s.InFlight != 1 || s.Unread != 600 {
			t.Errorf("%s: %+v, want InFlight 1 and Unread 600", what, s)
		}
		end(lease)
		if s := second.State(); s.InFlight != 0 || s.Unread != 0 {
			t.Errorf("after %s: %+v, want InFlight 0 and Unread 0", what, s)
		}
		lease.Release()
		lease.Done()
		if leases.Len() != 0 {
			t.Errorf("%s: %d leases are open, want 0", what, leases.Len())
		}
	}
}

func TestLease_LatePartsEndAtOnce(t *testing.T) {
	_, first, second := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	lease := leases.Open(first, Holder{}, Work{}, 0, time.Now())
	lease.Release()
	lease.AddParts(leases.Open(second, Holder{}, Work{}, 0, time.Now()))
	if n := second.State().InFlight; n != 0 {
		t.Errorf("%d in flight, want 0", n)
	}
}
