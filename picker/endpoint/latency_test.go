package endpoint

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

func measured(t *testing.T) (*Endpoint, *Leases) {
	t.Helper()
	registry := NewRegistry(Config{})
	list := registry.Snapshot(Metrics{Off: true}, nil, []Spec{{Addr: netip.MustParseAddrPort("10.0.0.1:80")}}).Endpoints
	return &list[0], NewLeases("test", time.Hour)
}

func predicted(e *Endpoint, f Features, now time.Time) (ttft, tpot float64) {
	var s State
	e.ReadState(&s, At(now))
	return s.Latency.Predict(&f)
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }

// After some requests, the prediction fits a server that reads at half the assumed speed and whose
// queue costs time.
func TestSLO_LatencyIsLearnedFromReports(t *testing.T) {
	e, leases := measured(t)
	random := rand.New(rand.NewPCG(1, 2))
	truth := func(f Features) (float64, float64) {
		return 0.05 + 2*f.Prefill + 0.3*f.Queue, 0.03 + 0.001*f.InFlight
	}
	features := func() Features {
		return Features{Prefill: random.Float64(), Queue: float64(random.IntN(10)), InFlight: float64(random.IntN(60))}
	}
	now := epoch
	for range 100 {
		f := features()
		ttft, tpot := truth(f)
		work := Work{Tokens: 1000, Rate: 4000, Stream: true, Features: f, TokenBytes: 250}
		lease := leases.Open(e, Holder{}, work, 0, now)
		now = now.Add(time.Duration(ttft * 1e9))
		lease.Begun(time.Duration(ttft * (0.9 + 0.2*random.Float64()) * 1e9))
		lease.Begun(time.Hour) // a second report of the same first byte
		lease.Wrote(101*250, time.Duration(100*tpot*1e9))
		lease.Release()
	}
	for range 20 {
		f := features()
		ttft, tpot := truth(f)
		if a, b := predicted(e, f, now); !near(a, ttft, 0.2) && math.Abs(a-ttft) > 0.2 || !near(b, tpot, 0.1) {
			t.Errorf("%+v: predicted %.3f and %.4f, want about %.3f and %.4f", f, a, b, ttft, tpot)
		}
	}
}

func TestSLO_UnknownServerIsPredictedByItsBacklog(t *testing.T) {
	e, leases := measured(t)
	f := Features{Prefill: 2, InFlight: 10}
	if ttft, tpot := predicted(e, f, epoch); !near(ttft, 2, 0.1) || !near(tpot, 0.025, 0.1) {
		t.Errorf("got %g and %g, want about 2 and 0.025", ttft, tpot)
	}
	for _, work := range []Work{{Stream: false, Features: f, TokenBytes: 250}, {Stream: true, TokenBytes: 250}} {
		lease := leases.Open(e, Holder{}, work, 0, epoch)
		lease.Begun(time.Minute)
		lease.Wrote(1<<20, time.Hour)
		lease.Release()
	}
	if ttft, _ := predicted(e, f, epoch); !near(ttft, 2, 0.1) {
		t.Errorf("learned from a request that shows nothing: predicted %g, want about 2", ttft)
	}
}

// vLLM sends an event of /v1/responses before it reads the prompt. The time after this event then
// includes the time to the first token.
func TestSLO_EarlyEventsAreNoFirstToken(t *testing.T) {
	e, leases := measured(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		f := Features{Prefill: random.Float64(), InFlight: float64(random.IntN(30))}
		n := 1 + random.IntN(200)
		took := 0.1 + 2*f.Prefill + (0.02+0.001*f.InFlight)*float64(n-1)
		lease := leases.Open(e, Holder{}, Work{Stream: true, Features: f, TokenBytes: 250}, 0, epoch)
		lease.Begun(3 * time.Millisecond)
		lease.Wrote(int64(250*n), time.Duration(took*(0.9+0.2*random.Float64())*1e9))
		lease.Release()
	}
	for _, prefill := range []float64{0.2, 0.5, 1} {
		f := Features{Prefill: prefill, InFlight: 10}
		if ttft, tpot := predicted(e, f, epoch); !near(ttft, 0.1+2*prefill, 0.25) || !near(tpot, 0.03, 0.15) {
			t.Errorf("%g s of prefill: predicted %.3f and %.4f, want about %.3f and 0.03",
				prefill, ttft, tpot, 0.1+2*prefill)
		}
	}
}

func TestSLO_PredictionIsNeverNegativeOrUnbounded(t *testing.T) {
	e, leases := measured(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		f := Features{Prefill: random.ExpFloat64() * 100, Queue: float64(random.IntN(1000)),
			InFlight: float64(random.IntN(1000))}
		lease := leases.Open(e, Holder{}, Work{Stream: true, Features: f, TokenBytes: 250, MaxTokens: random.IntN(30)},
			0, epoch)
		lease.Begun(time.Duration(random.Int64()))
		lease.Wrote(random.Int64(), time.Duration(random.Int64()))
		lease.Release()
		a, b := predicted(e, f, epoch)
		if !(a >= 0 && b >= 0) || math.IsInf(a, 0) || math.IsInf(b, 0) {
			t.Fatalf("%+v: got %g and %g, want finite values of 0 or more", f, a, b)
		}
	}
}
