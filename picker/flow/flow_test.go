package flow_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker/flow"
)

type server struct{ room, sheddable, endpoints int }

func (s *server) measure(time.Time) flow.Room {
	return flow.Room{Endpoints: s.endpoints, Requests: s.room, Sheddable: min(s.room, s.sheddable)}
}

func full() *server { return &server{endpoints: 1} }

type requests struct {
	t     *testing.T
	queue *flow.Queue
	all   map[*flow.Request]string
}

func newRequests(t *testing.T, l flow.Limits, s *server) *requests {
	return &requests{t, flow.New(l, s.measure, time.Now()), map[*flow.Request]string{}}
}

func (q *requests) enter(name string, r flow.Request) flow.Outcome {
	q.all[&r] = name
	o := q.queue.Enter(&r, time.Now())
	if o == flow.Admitted {
		q.queue.Placed()
	}
	return o
}

// admitted admits the requests one by one, and returns their names in order.
func (q *requests) admitted(s *server) (names []string) {
	for len(q.all) > 0 {
		time.Sleep(10 * time.Millisecond)
		s.room, s.sheddable = 1, 1
		before := len(q.all)
		q.queue.Admit(time.Now())
		for r, name := range q.all {
			if o := q.queue.Outcome(r); o == flow.Admitted {
				q.queue.Placed()
				names = append(names, name)
				delete(q.all, r)
			} else if o != flow.Queued {
				delete(q.all, r)
			}
		}
		if len(q.all) == before {
			q.t.Fatalf("no request is admitted, of %d", before)
		}
	}
	return names
}

func TestFlowControl_PoolWithRoomDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{room: 3, sheddable: 1, endpoints: 1}
		q := newRequests(t, flow.Limits{}, s)
		for i, r := range []struct {
			priority int
			want     flow.Outcome
		}{{0, flow.Admitted}, {-1, flow.Admitted}, {-1, flow.Queued}, {1, flow.Admitted}, {1, flow.Queued}} {
			if got := q.enter("", flow.Request{Priority: r.priority}); got != r.want {
				t.Errorf("request %d of priority %d is %v, want %v", i, r.priority, got, r.want)
			}
		}
	})
}

func TestFlowControl_HigherPriorityGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full()
		q := newRequests(t, flow.Limits{}, s)
		for _, r := range []struct {
			name     string
			priority int
		}{{"batch", -1}, {"chat", 0}, {"page", 7}, {"batch 2", -1}, {"page 2", 7}} {
			if got := q.enter(r.name, flow.Request{Priority: r.priority}); got != flow.Queued {
				t.Fatalf("a request of a saturated pool is %v, want %v", got, flow.Queued)
			}
		}
		if diff := cmp.Diff([]string{"page", "page 2", "chat", "batch", "batch 2"}, q.admitted(s)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFlowControl_FairnessIDsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full()
		q := newRequests(t, flow.Limits{}, s)
		for i := range 6 {
			q.enter(fmt.Sprint("many ", i), flow.Request{Fairness: "many"})
		}
		q.enter("few 0", flow.Request{Fairness: "few"})
		q.enter("one 0", flow.Request{Fairness: "one"})
		q.enter("few 1", flow.Request{Fairness: "few"})
		want := []string{"many 0", "few 0", "one 0", "many 1", "few 1", "many 2", "many 3", "many 4", "many 5"}
		if diff := cmp.Diff(want, q.admitted(s)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFlowControl_NearestDeadlineGoesFirst(t *testing.T) {
	for _, c := range []struct {
		order flow.Order
		want  []string
	}{
		{flow.Deadline, []string{"1s", "5s", "5s too", "none", "none too"}},
		{flow.FCFS, []string{"none", "5s", "1s", "none too", "5s too"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := full()
			q := newRequests(t, flow.Limits{Order: c.order}, s)
			now := time.Now()
			q.enter("none", flow.Request{})
			q.enter("5s", flow.Request{Deadline: now.Add(5 * time.Second)})
			q.enter("1s", flow.Request{Deadline: now.Add(time.Second)})
			q.enter("none too", flow.Request{})
			q.enter("5s too", flow.Request{Deadline: now.Add(5 * time.Second)})
			if diff := cmp.Diff(c.want, q.admitted(s)); diff != "" {
				t.Errorf("order %s: admitted (-want +got):\n%s", c.order, diff)
			}
		})
	}
}

func TestFlowControl_FullBandRejectsLongestFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full()
		q := newRequests(t, flow.Limits{Requests: 4}, s)
		for i := range 4 {
			q.enter(fmt.Sprint("many ", i), flow.Request{Fairness: "many"})
		}
		if got := q.enter("many 4", flow.Request{Fairness: "many"}); got != flow.Rejected {
			t.Errorf("a request above the limit, of the longest flow, is %v, want %v", got, flow.Rejected)
		}
		if got := q.enter("few", flow.Request{Fairness: "few"}); got != flow.Queued {
			t.Errorf("a request above the limit, of another flow, is %v, want %v", got, flow.Queued)
		}
		if got := q.enter("urgent", flow.Request{Priority: 1}); got != flow.Queued {
			t.Errorf("a request of another band is %v, want %v", got, flow.Queued)
		}
		if bands := q.queue.Bands(); len(bands) != 2 || bands[1].Requests != 4 {
			t.Errorf("bands are %+v, want 4 requests in the second", bands)
		}
		if diff := cmp.Diff([]string{"urgent", "many 0", "few", "many 1", "many 2"}, q.admitted(s)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFlowControl_BodiesOfABandAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRequests(t, flow.Limits{Bytes: 100}, full())
		if got := q.enter("", flow.Request{Bytes: 60}); got != flow.Queued {
			t.Errorf("60 bytes: %v, want %v", got, flow.Queued)
		}
		if got := q.enter("", flow.Request{Bytes: 50, Fairness: "other"}); got != flow.Rejected {
			t.Errorf("50 bytes more than 100 allow: %v, want %v", got, flow.Rejected)
		}
		if got := q.enter("", flow.Request{Bytes: 40, Fairness: "other"}); got != flow.Queued {
			t.Errorf("40 bytes more: %v, want %v", got, flow.Queued)
		}
	})
}

func TestFlowControl_FairnessIDsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRequests(t, flow.Limits{}, full())
		for i := range 3000 {
			q.enter("", flow.Request{Fairness: fmt.Sprint(i), Priority: i % 2})
		}
		flows := 0
		for _, b := range q.queue.Bands() {
			flows += b.Flows
		}
		if flows < 1000 || flows > 1002 { // 1,000, and a shared flow in each band
			t.Errorf("%d flows, want 1,000 and one shared in each band", flows)
		}
		for r := range q.all {
			q.queue.Remove(r)
		}
		if bands := q.queue.Bands(); len(bands) != 0 {
			t.Errorf("without requests there are bands: %+v, want none", bands)
		}
		q.enter("", flow.Request{Fairness: "later"})
		if bands := q.queue.Bands(); len(bands) != 1 || bands[0].Flows != 1 {
			t.Errorf("bands %+v, want one with one flow: flows end with their requests", bands)
		}
	})
}

func TestFlowControl_WaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		pool  server
		leave time.Duration
		want  flow.Outcome
		after time.Duration
	}{
		"with its TTL":             {server{endpoints: 1}, 0, flow.Expired, 60 * time.Second},
		"earlier without endpoint": {server{}, 0, flow.NoEndpoints, 10 * time.Second},
		"when the client leaves":   {server{endpoints: 1}, 3 * time.Second, flow.Canceled, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := flow.New(flow.Limits{}, c.pool.measure, time.Now())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.leave > 0 {
					time.AfterFunc(c.leave, cancel)
				}
				start := time.Now()
				r := &flow.Request{}
				if got := q.Enter(r, start); got != flow.Queued {
					t.Fatalf("the request is %v at first, want %v", got, flow.Queued)
				}
				got, after := q.Await(ctx, r), time.Since(start)
				if got != c.want || after < c.after || after > c.after+200*time.Millisecond {
					t.Errorf("the request is %v after %v, want %v after %v", got, after, c.want, c.after)
				}
				if q.Admit(time.Now()) != 0 {
					t.Error("it keeps its place")
				}
				time.Sleep(10 * time.Millisecond) // until the goroutine that calls Admit has ended
			})
		})
	}
}

func TestFlowControl_WaitingRequestGoesWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Bool
		q := flow.New(flow.Limits{}, func(time.Time) flow.Room {
			if free.Load() {
				return flow.Room{Endpoints: 1, Requests: 1}
			}
			return flow.Room{Endpoints: 1}
		}, time.Now())
		r := &flow.Request{}
		q.Enter(r, time.Now())
		time.AfterFunc(time.Second, func() { free.Store(true) })
		start := time.Now()
		if got := q.Await(t.Context(), r); got != flow.Admitted || time.Since(start) > time.Second+10*time.Millisecond {
			t.Errorf("the request is %v after %v, want it admitted after 1 s", got, time.Since(start))
		}
		time.Sleep(10 * time.Millisecond)
	})
}

// An admitted request takes room until its endpoint is chosen, which may take seconds.
func TestFlowControl_RoomOfAdmittedRequestIsNotGivenAwayAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{room: 2, sheddable: 1, endpoints: 1}
		q := flow.New(flow.Limits{}, s.measure, time.Now())
		enter := func(priority int, want flow.Outcome) *flow.Request {
			t.Helper()
			time.Sleep(10 * time.Millisecond)
			r := &flow.Request{Priority: priority}
			if got := q.Enter(r, time.Now()); got != want {
				t.Fatalf("a request of priority %d is %v, want %v; %d are not placed", priority, got, want,
					q.Unplaced())
			}
			return r
		}
		enter(0, flow.Admitted)
		batch := enter(-1, flow.Queued)
		enter(0, flow.Admitted)
		chat := enter(0, flow.Queued)
		s.room = 1
		q.Placed() // the first request is at a server
		time.Sleep(10 * time.Millisecond)
		if q.Admit(time.Now()) != 2 {
			t.Error("a request is admitted for which there is no room")
		}
		q.Placed() // the second request is not sent
		time.Sleep(10 * time.Millisecond)
		if q.Admit(time.Now()) != 1 || q.Outcome(chat) != flow.Admitted || q.Unplaced() != 1 {
			t.Errorf("the request that waits is %v, %d are not placed; want admitted, and 1",
				q.Outcome(chat), q.Unplaced())
		}
		q.Remove(chat) // this request has been admitted since
		q.Remove(batch)
		if q.Unplaced() != 0 {
			t.Errorf("%d requests take room for good, want 0", q.Unplaced())
		}
	})
}

// shared is a pool with two processes. Each sees the other's placed requests after a delay.
type shared struct {
	admitted [2][]time.Time
	// mu guards placed: waits of several goroutines end at the same instant.
	mu     sync.Mutex
	placed [2][]time.Time
	queues [2]*flow.Queue
	served int
}

const reportsTake = 50 * time.Millisecond

func (s *shared) measure(process int) func(time.Time) flow.Room {
	return func(now time.Time) flow.Room {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen := len(s.placed[process])
		for _, at := range s.placed[1-process] {
			if now.Sub(at) >= reportsTake {
				seen++
			}
		}
		return flow.Room{Endpoints: 1, Requests: max(0, 20+s.served-seen), Sheddable: 20, Others: 1,
			First: process == 0}
	}
}

// admit records an admitted request. The choice of its endpoint takes time.
func (s *shared) admit(process int, choice time.Duration) {
	s.admitted[process] = append(s.admitted[process], time.Now())
	place := func() {
		s.mu.Lock()
		s.placed[process] = append(s.placed[process], time.Now())
		s.mu.Unlock()
		s.queues[process].Placed()
	}
	if choice == 0 {
		place()
		return
	}
	time.AfterFunc(choice, place)
}

func TestFlowControl_ProcessesTogetherAdmitAsOne(t *testing.T) {
	for _, choice := range []time.Duration{0, 33 * time.Millisecond, 333 * time.Millisecond} {
		t.Run(choice.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { admitTogether(t, choice) })
		})
	}
}

func admitTogether(t *testing.T, choice time.Duration) {
	s := &shared{}
	s.queues = [2]*flow.Queue{flow.New(flow.Limits{}, s.measure(0), time.Now()),
		flow.New(flow.Limits{}, s.measure(1), time.Now())}
	waiting := []map[*flow.Request]bool{{}, {}}
	for i := range 400 {
		r := &flow.Request{}
		waiting[i%2][r] = true
		s.queues[i%2].Enter(r, time.Now())
		if s.queues[i%2].Outcome(r) == flow.Admitted {
			s.admit(i%2, choice)
			delete(waiting[i%2], r)
		}
	}
	most, first := 0, time.Duration(0)
	start := time.Now()
	for range 2000 {
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		// The servers finish 50 requests a second.
		s.served = min(int(time.Since(start)/(20*time.Millisecond)), len(s.placed[0])+len(s.placed[1]))
		for p, q := range s.queues {
			q.Admit(time.Now())
			for r := range waiting[p] {
				if q.Outcome(r) == flow.Admitted {
					s.admit(p, choice)
					delete(waiting[p], r)
				}
			}
		}
		all := len(s.admitted[0]) + len(s.admitted[1])
		if most = max(most, all-s.served); all == 400 {
			first = time.Since(start)
			break
		}
	}
	if most > 22 {
		t.Errorf("two processes had %d requests at servers that take 20; want at most 10 %% more", most)
	}
	if choice > reportsTake { // the choice takes so long that the servers are never full
		return
	}
	if first == 0 || first > 8800*time.Millisecond+2*choice { // (400 - 20) / 50 s plus 15 %
		t.Errorf("400 requests were admitted after %v, want about 7.6 s", first)
	}
}

func TestFlowControl_PrioritiesWaitTheirOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := flow.Limits{TTL: time.Minute, TTLs: []flow.BandTTL{
			{Priority: 7, TTL: 5 * time.Second}, {Negative: true, TTL: 90 * time.Second},
			{Priority: -2, TTL: 2 * time.Second},
		}}
		q := flow.New(limits, full().measure, time.Now())
		for priority, want := range map[int]time.Duration{
			7: 5 * time.Second, 0: time.Minute, -1: 90 * time.Second, -2: 2 * time.Second,
		} {
			r, start := &flow.Request{Priority: priority}, time.Now()
			if o := q.Enter(r, start); o != flow.Queued {
				t.Fatal(o)
			}
			if o := q.Await(t.Context(), r); o != flow.Expired || time.Since(start) != want {
				t.Errorf("priority %d: %v after %v, want %v", priority, o, time.Since(start), want)
			}
		}
		time.Sleep(10 * time.Millisecond) // until the queue stops trying
	})
}

func TestFlowControl_AheadIsWhatGoesBeforeARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRequests(t, flow.Limits{}, full())
		for _, r := range []flow.Request{{Priority: -1, Bytes: 1}, {Bytes: 10}, {Bytes: 100},
			{Priority: 7, Bytes: 1000}} {
			q.enter("", r)
			time.Sleep(time.Second)
		}
		for priority, want := range map[int]flow.Ahead{
			-1: {Requests: 4, Bytes: 1111, Oldest: 4 * time.Second},
			0:  {Requests: 3, Bytes: 1110, Oldest: 3 * time.Second},
			7:  {Requests: 1, Bytes: 1000, Oldest: time.Second},
			8:  {},
		} {
			if got := q.queue.Ahead(priority, time.Now()); got != want {
				t.Errorf("before priority %d: %+v, want %+v", priority, got, want)
			}
		}
	})
}
