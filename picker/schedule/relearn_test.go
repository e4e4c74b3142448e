package schedule

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// answer has the times of a stream: to the headers, to the first token, and between further tokens.
type answer struct{ headers, first, each time.Duration }

type trialPool struct {
	t      *testing.T
	s      *Strategy
	list   []endpoint.Endpoint
	leases *endpoint.Leases
	now    time.Time
	r      Request
}

func newTrialPool(t *testing.T, name string, after time.Duration, servers int) *trialPool {
	return &trialPool{t: t, s: strategy(t, Options{Name: name, ShedAfter: after}),
		list: endpoints(t, make([]server, servers)...), leases: endpoint.NewLeases("trials", time.Hour), now: epoch,
		r: Request{Tokens: 40, Stream: true, Criticality: Sheddable}}
}

func (p *trialPool) send() (*endpoint.Lease, Candidate) {
	var scratch Scratch
	c := p.s.Rank(&p.r, p.now, p.list, nil, 1, &scratch)
	if len(c) == 0 {
		return nil, Candidate{}
	}
	return p.leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&p.r), 0, p.now), c[0]
}

func (p *trialPool) end(lease *endpoint.Lease, tokens int, a answer) {
	rest := a.first + time.Duration(tokens-1)*a.each
	p.now = p.now.Add(a.headers + rest)
	lease.Begun(a.headers)
	lease.Wrote(int64(tokens*tokenBytes), rest)
	lease.Release()
}

// slowOnce makes every server answer twelve requests, with different response lengths.
func (p *trialPool) slowOnce(a answer) {
	for i := range p.list {
		for k := range 12 {
			work := endpoint.Work{Stream: true, Features: endpoint.Features{Prefill: 0.01}, TokenBytes: tokenBytes}
			p.end(p.leases.Open(&p.list[i], endpoint.Holder{}, work, 0, p.now), 1+20*k, a)
		}
	}
}

func (p *trialPool) passes(a answer) (yes, trial bool) {
	lease, c := p.send()
	if lease == nil {
		return false, false
	}
	p.end(lease, 20, a)
	return true, c.Relearn
}

var (
	slowHeaders, fastHeaders = answer{3 * time.Second, 0, 20 * time.Millisecond},
		answer{20 * time.Millisecond, 0, 20 * time.Millisecond}
	// Like vLLM, these servers send a stream's headers at once.
	slowRest, fastRest = answer{3 * time.Millisecond, 3 * time.Second, 20 * time.Millisecond},
		answer{3 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
)

// A server that was slow gets a request again after some time, even if its predicted latency is too
// long, because it may have become faster.
func TestSLO_ServerThatWasSlowOnceIsTriedAgain(t *testing.T) {
	for _, kind := range []struct{ slow, fast answer }{{slowHeaders, fastHeaders}, {slowRest, fastRest}} {
		for _, name := range Names() {
			p := newTrialPool(t, name, 1500*time.Millisecond, 1)
			p.slowOnce(kind.slow)
			for _, after := range []time.Duration{0, 9 * time.Second} {
				p.now = p.now.Add(after)
				if yes, _ := p.passes(kind.slow); yes {
					t.Fatalf("%s: sent after %s, want no request before a trial is due", name, after)
				}
			}
			for range 3 { // the server is as slow as before
				p.now = p.now.Add(10 * time.Second)
				if v := p.s.Describe(&p.r, p.now, p.list, nil); v[0].Trial != "speed" {
					t.Errorf(`%s: a trial that is due is explained as %q, want "speed"`, name, v[0].Trial)
				}
				lease, c := p.send()
				if lease == nil || !c.Relearn || c.TTFT < 1.5 {
					t.Fatalf("%s: not tried: got %+v, want a trial with a first token after at least 1.5 s", name, c)
				}
				if lease, _ := p.send(); lease != nil {
					t.Errorf("%s: two trials at a time", name)
				}
				p.end(lease, 20, kind.slow)
				if yes, _ := p.passes(kind.slow); yes {
					t.Errorf("%s: a slow server gets a second request", name)
				}
			}
			p.now = p.now.Add(10 * time.Second)
			if yes, trial := p.passes(kind.fast); !yes || !trial {
				t.Errorf("%s: not tried", name)
			}
			for range 20 {
				if yes, trial := p.passes(kind.fast); !yes || trial {
					t.Fatalf("%s: a server that is fast again gets no requests (%t), or trials alone", name, yes)
				}
			}
		}
	}
}

func TestSLO_TrialsOfSpeed(t *testing.T) {
	due := func(slow answer, o Objective, servers int) *trialPool {
		p := newTrialPool(t, "load", 0, servers)
		p.r.Objective = o
		p.slowOnce(slow)
		p.now = p.now.Add(10 * time.Second)
		return p
	}
	t.Run("an objective", func(t *testing.T) {
		for _, o := range []Objective{{TTFT: 1.5}, {TPOT: 0.03}} {
			p := due(answer{3 * time.Second, 0, 100 * time.Millisecond}, o, 1)
			p.passes(fastHeaders)
			if yes, trial := p.passes(fastHeaders); !yes || trial {
				t.Errorf("%+v: passes: %t, as a trial: %t; want true, false", o, yes, trial)
			}
		}
	})
	t.Run("an objective that no server meets", func(t *testing.T) {
		for _, o := range []Objective{{TTFT: 0.001}, {TPOT: 0.001}} {
			if yes, _ := due(slowHeaders, o, 1).passes(slowHeaders); yes {
				t.Errorf("%+v: a request passes, want none", o)
			}
		}
	})
	t.Run("no stream", func(t *testing.T) {
		for _, slow := range []answer{slowHeaders, slowRest} {
			p := due(slow, Objective{TTFT: 1.5}, 1)
			p.r.Stream = false
			if yes, trial := p.passes(answer{headers: 400 * time.Millisecond}); !yes || !trial {
				t.Fatal("not tried")
			}
			if yes, trial := p.passes(fastHeaders); !yes || trial {
				t.Errorf("passes: %t, as a trial: %t; want true, false", yes, trial)
			}
		}
	})
	t.Run("every server", func(t *testing.T) {
		p := due(slowHeaders, Objective{TTFT: 1.5}, 3)
		for i := range 4 {
			if lease, c := p.send(); (lease != nil) != (i < 3) || lease != nil && !c.Relearn {
				t.Errorf("request %d: sent: %t, to %+v; want the first 3 sent, as trials", i, lease != nil, c)
			}
		}
	})
	t.Run("a busy server", func(t *testing.T) {
		p := due(slowHeaders, Objective{TTFT: 1.5}, 1)
		p.list[0].BeginScrape().Succeed(endpoint.Reading{Running: 1}, p.now)
		if yes, _ := p.passes(slowHeaders); yes {
			t.Error("a server gets a trial that runs a request of another sender")
		}
	})
	t.Run("a trial without an answer", func(t *testing.T) {
		p := due(slowHeaders, Objective{TTFT: 1.5}, 1)
		lease, _ := p.send()
		lease.Release()
		if yes, _ := p.passes(slowHeaders); yes {
			t.Error("it is tried again at once")
		}
	})
	t.Run("a long prompt at a server that is not known", func(t *testing.T) {
		p := newTrialPool(t, "load", 1500*time.Millisecond, 1)
		p.r.Tokens = 3 * defaultRate
		if yes, trial := p.passes(fastHeaders); !yes || !trial {
			t.Fatal("not tried")
		}
		p.r.Tokens, p.r.Objective.TTFT = 40, 0.01
		p = newTrialPool(t, "load", 0, 1)
		p.r.Objective.TTFT = 0.01
		if yes, _ := p.passes(fastHeaders); yes {
			t.Error("a request passes that asks for less than a server is assumed to take for no prompt")
		}
	})
}
