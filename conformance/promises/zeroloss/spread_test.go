package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func (p *pair) add(name string, planes ...*plane) edge {
	p.t.Helper()
	e, err := p.edge(name, planes...)
	p.must(err)
	p.edges = append(p.edges, e)
	p.must(e.live(p.t.Context()))
	return e
}

func (p *pair) alike(a, b edge) (both resources) {
	p.t.Helper()
	poll.NoError(p.t, "both Envoys have the same", limit, func() error {
		first, err := dump(p.t.Context(), a.admin)
		if err != nil {
			return err
		}
		second, err := dump(p.t.Context(), b.admin)
		if err != nil {
			return err
		}
		both = first
		return first.differs(second)
	})
	return both
}

func (p *plane) picked() (float64, error) {
	lines, err := p.metric("penstock_picker_picks_total")
	sum := 0.0
	for _, line := range lines {
		var n float64
		_, _ = fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n)
		sum += n
	}
	return sum, err
}

// Two Envoys get their configuration from different processes, but call both for picks. When one
// process learns an endpoint, both Envoys must have it before either process picks it.
func TestReplicas_EnvoysServeAlikeWhenOneProcessIsKilled(t *testing.T) {
	p := startPair(t, false)
	a, b := p.planes[0], p.planes[1]
	p.must(b.Stop(10 * time.Second))
	first := p.add("first", a, b) // the Envoy connects to a
	p.must(b.start(p.Dir))
	p.must(b.ready(t.Context()))
	second := p.add("second", b)
	p.serve()
	p.flows(40)
	for _, plane := range p.planes {
		poll.NoError(t, "an Envoy at each control plane", limit, plane.serves)
	}

	// Penstock learns the pods when a pick names them.
	p.world.imports["far"] = &imported{
		members: []*member{{name: "east", kind: "relayed", fleet: externalFleet, weight: 1}},
	}
	p.world.routes["r2"].backends = []backend{{"import", "far", 1}}
	p.change("listener-add", 1)
	learned := func() error {
		got := p.alike(first, second)["endpoint import/default/far/east"]
		for _, s := range p.world.fleets[externalFleet].serving() {
			if !strings.Contains(got, fmt.Sprintf(`"port_value":%d`, s.port)) {
				return fmt.Errorf("got %s, want %s among them", got, s.name)
			}
		}
		return nil
	}
	poll.NoError(t, "both Envoys know all pods that were picked", limit, learned)
	for _, plane := range p.planes {
		if n, err := plane.picked(); err != nil || n == 0 {
			t.Errorf("%s made %g picks: %v, want some", plane.name, n, err)
		}
	}

	for step, gone := range []*plane{a, b} {
		p.note("SIGKILL to %s", gone.name)
		gone.Signal(syscall.SIGKILL)
		<-gone.Ended()
		p.flows(60)
		if gone == a {
			p.change("move", uint64(step))
			p.change("server-add", uint64(step))
			p.flows(60)
			p.alike(first, second)
		}
		p.must(gone.start(p.Dir))
		p.must(gone.ready(t.Context()))
		p.flows(20)
	}
	p.change("rename-pool", 7)
	p.change("listener-remove", 8)
	p.flows(60)
	p.alike(first, second)
	p.must(learned())
}

// Any process answers an Envoy's ext_proc calls, and each worker of Envoy reports ended requests to
// one process. The processes must share these reports. Otherwise a picker would count ended
// requests until its pools seem full.
func TestAccessLog_EndedRequestsLeaveEveryPickersCount(t *testing.T) {
	p := startPair(t, true)
	p.flows(400)
	p.stop()
	for _, plane := range p.planes {
		if n, err := plane.picked(); err != nil || n == 0 {
			t.Errorf("%s made %g picks: %v, want some", plane.name, n, err)
		}
		poll.NoError(t, "no request is in flight", limit, func() error {
			open, err := plane.metric("penstock_picker_open_leases")
			if err == nil && len(open) > 0 {
				err = fmt.Errorf("%s counts %s, want none", plane.name, open)
			}
			return err
		})
	}
}
