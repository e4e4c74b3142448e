package schedule

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// If one of two idle servers reads prompts eight times as fast, its first samples must suffice for
// the strategy to prefer it. A server without samples counts as fast as the mean, so that it gets
// requests.
func TestLoad_FasterOfTwoIdleServersIsPreferredFromFirstSamplesOn(t *testing.T) {
	list := endpoints(t, server{}, server{})
	leases, s := endpoint.NewLeases("me", time.Hour), strategy(t, Options{})
	fast := &list[1]
	now := epoch
	pick := func() *endpoint.Endpoint {
		var scratch Scratch
		now = now.Add(time.Minute)
		return s.Rank(&Request{Tokens: 4000, Stream: true}, now, list, nil, 1, &scratch)[0].Endpoint
	}
	serve := func(e *endpoint.Endpoint) {
		seconds := 4000. / 1000
		if e == fast {
			seconds /= 8
		}
		lease := leases.Open(e, endpoint.Holder{}, endpoint.Work{Tokens: 4000, Rate: 4000, Stream: true, Measure: true},
			0, now)
		lease.Begun(20*time.Millisecond + time.Duration(seconds*1e9))
		lease.Release()
		lease.Done()
	}
	share := func() (n int) {
		pick() // updates the means
		for range 40 {
			if pick() == fast {
				n++
			}
		}
		return n
	}
	if n := share(); n == 0 || n == 40 {
		t.Errorf("before any sample %d of 40 go to one server, want 1 to 39", n)
	}
	serve(fast)
	if n := share(); n == 0 || n == 40 {
		t.Errorf("with a sample of one server %d of 40 go there, want 1 to 39", n)
	}
	serve(&list[0])
	for range 10 {
		if n := share(); n != 40 {
			t.Errorf("%d of 40 go to the faster server, want 40", n)
		}
		serve(fast)
	}
}

// In streams of the Responses API, vLLM sends its first event before it reads the prompt, so the
// first byte is no first token.
func TestLoad_FirstByteOfAResponsesStreamOfVLLMIsNoFirstToken(t *testing.T) {
	s, list := strategy(t, Options{}), endpoints(t, server{})
	for r, want := range map[*Request][2]bool{ // early, measured
		{Tokens: 4000, Stream: true}:                  {false, true},
		{Tokens: 4000, Stream: true, Responses: true}: {true, false},
		{Tokens: 4000, Responses: true}:               {false, false},
	} {
		w := s.Rank(r, epoch, list, nil, 1, &Scratch{})[0].Work(r)
		if w.Early != want[0] || w.Measure != want[1] {
			t.Errorf("%+v: early %t, measured %t, want %t and %t", r, w.Early, w.Measure, want[0], want[1])
		}
	}
}
