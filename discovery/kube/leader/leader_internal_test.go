package leader

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type lease struct {
	mu      sync.Mutex
	version int
	record  *resourcelock.LeaderElectionRecord
}

// lock is an Elector's access to the Lease. It implements resourcelock.Interface.
type lock struct {
	lease    *lease
	identity string
	seen     int

	mu  sync.Mutex
	err error // the error of each request; nil: requests succeed
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (l *lock) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *lock) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.broken(); err != nil {
		return nil, nil, err
	}
	l.lease.mu.Lock()
	defer l.lease.mu.Unlock()
	if l.lease.record == nil {
		return nil, nil, apierrors.NewNotFound(leases, "penstock")
	}
	l.seen = l.lease.version
	record := *l.lease.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (l *lock) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.put(r, 0)
}

func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.put(r, l.seen)
}

func (l *lock) put(r resourcelock.LeaderElectionRecord, version int) error {
	if err := l.broken(); err != nil {
		return err
	}
	l.lease.mu.Lock()
	defer l.lease.mu.Unlock()
	if version != l.lease.version {
		return apierrors.NewConflict(leases, "penstock", errors.New("it has changed"))
	}
	l.lease.version++
	l.lease.record, l.seen = &r, l.lease.version
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return "penstock" }

type process struct {
	*Elector
	lock *lock
	stop context.CancelFunc
	done chan error
}

type term struct {
	identity   string
	start, end time.Time
}

type terms struct {
	mu   sync.Mutex
	list []*term
}

func (ts *terms) lead(identity string) func(context.Context) error {
	return func(ctx context.Context) error {
		now := &term{identity: identity, start: time.Now()}
		ts.mu.Lock()
		ts.list = append(ts.list, now)
		ts.mu.Unlock()
		<-ctx.Done()
		ts.mu.Lock()
		now.end = time.Now()
		ts.mu.Unlock()
		return ctx.Err()
	}
}

// follow returns the leaders so far. It fails the test if two led at the same time.
func (ts *terms) follow(t *testing.T) (leaders []string) {
	t.Helper()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for i, now := range ts.list {
		leaders = append(leaders, now.identity)
		if i > 0 && (ts.list[i-1].end.IsZero() || ts.list[i-1].end.After(now.start)) {
			t.Errorf("%s leads from %v on, and %s until %v; want one after the other",
				now.identity, now.start, ts.list[i-1].identity, ts.list[i-1].end)
		}
	}
	return leaders
}

func run(t *testing.T, l *lease, identity string, lead func(context.Context) error) *process {
	p := &process{lock: &lock{lease: l, identity: identity}, done: make(chan error, 1)}
	p.Elector = &Elector{cfg: Config{Name: "penstock", Identity: identity, Log: slog.New(slog.DiscardHandler)},
		lock: &heartbeat{Interface: p.lock}}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	go func() { p.done <- p.Run(ctx, lead) }()
	return p
}

func after(d time.Duration) {
	time.Sleep(d) // virtual time, in a synctest bubble
	synctest.Wait()
}

func TestLease_AnotherProcessLeadsOnlyAfterTheLeaderStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lease
		var led terms
		a := run(t, &l, "a", led.lead("a"))
		after(time.Second)
		b := run(t, &l, "b", led.lead("b"))
		after(time.Minute)
		if got := led.follow(t); len(got) != 1 || !a.Leading() || b.Leading() {
			t.Fatalf("leaders so far: got %v, want a alone", got)
		}
		a.stop() // a process that ends by itself releases the Lease
		if err := <-a.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run of a process that ends: %v, want %v", err, context.Canceled)
		}
		after(3 * retryPeriod) // client-go tries every 1 to 2.2 periods
		if got := led.follow(t); len(got) != 2 || !b.Leading() || a.Leading() {
			t.Fatalf("leaders after the first one has ended: got %v, want two, of which b leads", got)
		}
		b.stop()
		<-b.done
	})
}

func TestLease_LeaderWithoutContactStopsBeforeAnotherProcessLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lease
		var led terms
		a := run(t, &l, "a", led.lead("a"))
		after(time.Second)
		b := run(t, &l, "b", led.lead("b"))
		after(time.Minute)
		cut := time.Now()
		a.lock.fail(errors.New("connection refused"))
		// client-go tries every 1 to 2.2 periods. b reads the last renewal at one attempt, and
		// acquires the expired Lease at a later attempt.
		after(leaseDuration + 5*retryPeriod)
		if got := led.follow(t); len(got) != 2 || got[1] != "b" || a.Leading() {
			t.Fatalf("leaders after the first one was cut off: got %v, want two, of which b leads", got)
		}
		if a.LastContact().After(cut) || b.LastContact().Before(cut) {
			t.Errorf("last contact of the process that is cut off %v, want before %v; of the other one %v, want after",
				a.LastContact(), cut, b.LastContact())
		}
		a.lock.fail(nil) // a takes part again, but does not lead
		after(time.Minute)
		if got := led.follow(t); len(got) != 2 || !a.LastContact().After(cut) {
			t.Errorf("leaders after the first one is back: got %v, want two; its last contact is %v, want after %v",
				got, a.LastContact(), cut)
		}
		for _, p := range []*process{a, b} {
			p.stop()
			<-p.done
		}
	})
}

func TestLease_FailedLeaderEndsAndGivesTheLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lease
		var led terms
		broken := errors.New("broken")
		a := run(t, &l, "a", func(context.Context) error { return broken })
		if err := <-a.done; !errors.Is(err, broken) {
			t.Fatalf("Run of a process whose lead fails: %v, want %v", err, broken)
		}
		b := run(t, &l, "b", led.lead("b"))
		after(2 * retryPeriod)
		if !b.Leading() || a.Leading() {
			t.Errorf("leading: %t, and the process that failed: %t; want true, false", b.Leading(), a.Leading())
		}
		a.stop()
		b.stop()
		<-b.done
	})
}

func TestLease_AnyAnswerIsContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heartbeat{Interface: &lock{lease: &lease{}}}
		e := &Elector{lock: h}
		if !e.LastContact().IsZero() {
			t.Errorf("contact at %v before the first answer, want none", e.LastContact())
		}
		for _, c := range []struct {
			err     error
			contact bool
		}{
			{nil, true},
			{apierrors.NewNotFound(leases, "penstock"), true},
			{apierrors.NewConflict(leases, "penstock", nil), true},
			{apierrors.NewAlreadyExists(leases, "penstock"), true},
			{apierrors.NewForbidden(leases, "penstock", nil), true},
			{errors.New("connection refused"), false},
			{context.DeadlineExceeded, false},
		} {
			time.Sleep(time.Second)
			if err := h.note(c.err); !errors.Is(err, c.err) {
				t.Errorf("%v becomes %v, want the same", c.err, err)
			}
			if got := e.LastContact().Equal(time.Now()); got != c.contact {
				t.Errorf("%v is contact: %t, want %t", c.err, got, c.contact)
			}
		}
	})
}
