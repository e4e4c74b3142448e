package picker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// starts is an OnDemand for one pool. Each call of Resume returns the next value of ends.
type starts struct {
	pool   string
	limit  time.Duration
	called chan struct{}
	ends   chan error
}

func (s starts) Demand(pool objectid.Target) (Demand, bool) {
	return Demand{Model: "llama", Limit: s.limit}, pool.String() == s.pool
}

func (s starts) Resume(ctx context.Context, _ objectid.Target) error {
	select {
	case s.called <- struct{}{}:
	default:
	}
	select {
	case err := <-s.ends:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newStarts(limit time.Duration) starts {
	return starts{pool: "ns/pool", limit: limit, called: make(chan struct{}, 8), ends: make(chan error)}
}

func TestResume_ARequestWaitsForTheServerThatItStarts(t *testing.T) {
	on := newStarts(20 * time.Minute)
	p := runPicker(t, Config{OnDemand: on})
	_, address := servePicker(t, p)
	id := poolID("ns/pool")
	draining := specs("10.0.0.1:80")
	draining[0].Draining = true
	setPools(t, p, Pool{ID: id, Default: true, Endpoints: draining})
	stream, _ := call(t, dialPicker(t, address))
	r := exchange(t, stream, headerMessage(nil))
	if asked := r.GetOverrideMessageTimeout().AsDuration(); asked != on.limit+answerTime || r.Response != nil {
		t.Fatalf("a held request: %v, want it to ask the gateway for %v", r, on.limit+answerTime)
	}
	<-on.called
	if u := p.Use(id); !u.Known || u.Accepts || u.Held != 1 || u.Active != 0 {
		t.Errorf("while it is held: got %+v, want known, 1 held, and none active", u)
	}
	on.ends <- nil // the server serves, but the pool does not have it yet
	if err := p.Update(Pool{ID: id, Default: true, Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")}); err != nil {
		t.Fatal(err)
	}
	go func() { on.ends <- nil }()
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if list, _, _ := answered(r); !strings.HasPrefix(list, "10.0.0.") {
		t.Errorf("once the server is there: got %v, want a server of 10.0.0.0/24", r)
	}
	if u := p.Use(id); !u.Accepts || u.Held != 0 || u.Active != 1 || u.Last.IsZero() {
		t.Errorf("while the request is in flight: got %+v, want 1 active, none held, and a last time", u)
	}
	if picks := p.Picks(Picks{Last: 1}); len(picks) != 1 || picks[0].Resumed <= 0 {
		t.Errorf("the record of the pick has no wait, want one: %+v", picks)
	}
}

func TestResume_AFailedStartIsAnsweredWithItsReason(t *testing.T) {
	for _, c := range []struct {
		limit        time.Duration
		err          error
		reason, text string
	}{
		{time.Minute, errors.New("exit status 1"), ReasonNotResumed, "exit status 1"},
		{50 * time.Millisecond, nil, ReasonResumeTime, "serves after 50ms"},
	} {
		on := newStarts(c.limit)
		p := runPicker(t, Config{OnDemand: on})
		_, address := servePicker(t, p)
		setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true})
		stream, _ := call(t, dialPicker(t, address))
		exchange(t, stream, headerMessage(nil))
		if c.err != nil {
			on.ends <- c.err
		}
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		_, _, status := answered(r)
		body := string(r.GetImmediateResponse().GetBody())
		if reason := immediateHeaders(r).Get("x-penstock-reason"); status != 503 || reason != c.reason ||
			!strings.Contains(body, c.text) || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("%d %s %s, want 503, %s and %q", status, reason, body, c.reason, c.text)
		}
	}
}

func TestResume_AClientThatLeavesIsReleased(t *testing.T) {
	on := newStarts(20 * time.Minute)
	p := runPicker(t, Config{OnDemand: on})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true})
	stream, leave := call(t, dialPicker(t, address))
	exchange(t, stream, headerMessage(nil))
	<-on.called
	leave()
	poll.Until(t, "no request is held", func() bool {
		u := p.Use(poolID("ns/pool"))
		return u.Held == 0 && u.Active == 0
	})
}

func TestResume_AStoppedModelIsListed(t *testing.T) {
	p := runPicker(t, Config{OnDemand: newStarts(time.Minute)})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true})
	stream, _ := call(t, dialPicker(t, address))
	r := exchange(t, stream, headerMessage(nil, ":method", "GET", ":path", "/v1/models"))
	if body := string(r.GetImmediateResponse().GetBody()); !strings.Contains(body, `"id":"llama"`) {
		t.Errorf("the list is %s, want the stopped model in it", body)
	}
}
