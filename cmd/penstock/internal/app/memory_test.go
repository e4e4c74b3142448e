package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestMemory_OfABurstReturnsToTheSystem(t *testing.T) {
	burst := make([][]byte, 64)
	for i := range burst {
		burst[i] = make([]byte, 2<<20)
	}
	runtime.GC() // everything is live here, and garbage later
	runtime.KeepAlive(burst)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reclaim(ctx, func() {}) }()
	poll.NoError(t, "the memory of the burst is returned", poll.Limit, func() error {
		if h := held(); h > 64<<20 {
			return fmt.Errorf("%d MiB are held, want at most 64", h>>20)
		}
		return nil
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("it did not end with its context")
	}
}

func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

func TestMemory_LimitLeavesRoomBelowTheContainers(t *testing.T) {
	const mib = 1 << 20
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	t.Setenv("GOMEMLIMIT", "")
	before := limit()
	end := KeepWithin(2000 * mib)
	if got := limit(); got < 1799*mib || got > 1800*mib {
		t.Errorf("of 2000 MiB Go may have %d, want 1800", got/mib)
	}
	end()
	KeepWithin(0)()
	if got := limit(); got != before {
		t.Errorf("afterwards it may have %d, want %d", got, before)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	defer KeepWithin(2000 * mib)()
	if got := limit(); got != before {
		t.Errorf("with GOMEMLIMIT in the environment it is given %d, want %d", got, before)
	}
}

func TestMemory_BusyProcessIsNotCollected(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []uint64 // bytes allocated between two calls of look
		rests bool     // result of the last call
		after bool     // the last call was after a burst
	}{
		{"at rest after a burst", []uint64{60 << 20, 40 << 20, 1 << 10}, true, true},
		{"at rest with little to be had", []uint64{4 << 20, 1 << 10}, true, false},
		{"at work", []uint64{60 << 20, 40 << 20}, false, false},
		{"at rest, with what pings cost", slices.Repeat([]uint64{200 << 10}, 600), true, false},
	} {
		var b burst
		var all uint64
		rests, after := false, false
		for _, step := range c.steps {
			all += step
			rests, after = b.look(all)
		}
		if rests != c.rests || after != c.after {
			t.Errorf("%s: got rest %v, after a burst %v; want %v, %v", c.name, rests, after, c.rests, c.after)
		}
	}
}

func TestProfiling_RunningProcessServesPprof(t *testing.T) {
	handler := withProfiles(http.NotFoundHandler())
	for path, want := range map[string]int{"/debug/pprof/heap": 200, "/debug/pprof/goroutine": 200,
		"/debug/pprof/none": 404, "/metrics": 404} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestMemory_StartIsCollectedMoreOftenUnlessGOGCIsSet(t *testing.T) {
	percent := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	t.Setenv("GOGC", "")
	before := percent()
	end := startTight()
	if got := percent(); got != startPercent {
		t.Errorf("while it starts the heap may grow by %d%%, want %d", got, startPercent)
	}
	end()
	end()
	if got := percent(); got != before {
		t.Errorf("afterwards by %d%%, want %d", got, before)
	}
	t.Setenv("GOGC", "300")
	defer startTight()()
	if got := percent(); got != before {
		t.Errorf("with GOGC in the environment by %d%%, want %d", got, before)
	}
}
