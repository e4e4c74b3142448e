package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"
)

// endedPools: "same" hashes prompts to servers. "full" admits one request, and spills others to
// "spare".
var endedPools = []struct {
	name     string
	servers  int
	takes    time.Duration
	requests int
	policy   string
}{
	{"any", 1, 4 * time.Millisecond, 400, ""},
	{"same", 3, 20 * time.Millisecond, 100, "picker: {strategy: chwbl}"},
	{"full", 1, 4 * time.Millisecond, 40, "picker: {full: {inFlight: 1}}, spill: [{name: spare}]"},
	{"spare", 1, 4 * time.Millisecond, 0, ""},
}

func measureEnded(ctx context.Context, c config, out report) error {
	objects := ""
	for _, pool := range endedPools {
		var ports []int
		for range pool.servers {
			s := endedServer(pool.takes)
			defer s.Close()
			ports = append(ports, s.Listener.Addr().(*net.TCPAddr).Port)
		}
		objects += routeObject(pool.name, byPath(pool.name)) + poolObjects(pool.name, ports)
		if pool.policy != "" {
			objects += policyObject(pool.name, pool.policy)
		}
	}
	g, err := startGateway(c, objects)
	if err != nil {
		return err
	}
	defer g.close()
	for _, pool := range endedPools {
		if err := g.serves(ctx, func() error { _, err := g.same(ctx, pool.name); return err }); err != nil {
			return err
		}
	}
	var lags []float64
	for range endedPools[0].requests {
		lag, err := g.lag(ctx)
		if err != nil {
			return err
		}
		lags = append(lags, milliseconds(lag))
	}
	out("ended_lag", "", percentile(lags, 99))
	out("ended_lag", "median", median(lags))
	for i, figure := range []string{"ended_left", "ended_spilled"} {
		others, err := g.elsewhere(ctx, endedPools[1+i].name, endedPools[1+i].requests)
		if err != nil {
			return err
		}
		out(figure, "", float64(others))
	}
	return nil
}

func endedServer(takes time.Duration) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			time.Sleep(takes)
		}
		_, _ = io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	}))
}

func (g *gateway) same(ctx context.Context, pool string) (by string, err error) {
	answer, err := post(ctx, http.DefaultClient, g.url+pool, sameChat)
	return string(answer), err
}

// lag returns how long a request counts as in flight after its client has read the whole response.
func (g *gateway) lag(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if _, err := g.same(ctx, "any"); err != nil {
		return 0, err
	}
	end := time.Now()
	for {
		known, err := g.outcome(ctx, begin)
		if lag := time.Since(end); err != nil || known || lag > time.Second {
			return lag, err
		}
	}
}

func (g *gateway) outcome(ctx context.Context, begin time.Time) (bool, error) {
	page, err := g.page(ctx, "/debug/picks?pool=default/any&last=1")
	if err != nil {
		return false, err
	}
	var found struct {
		Picks []struct {
			Time    time.Time
			Outcome struct{ Ended bool }
		}
	}
	if err := json.Unmarshal(page, &found); err != nil {
		return false, fmt.Errorf("page of picks: %w", err)
	}
	return len(found.Picks) > 0 && found.Picks[0].Outcome.Ended && found.Picks[0].Time.After(begin), nil
}

func (g *gateway) elsewhere(ctx context.Context, pool string, n int) (others int, err error) {
	time.Sleep(100 * time.Millisecond) // the pool becomes idle
	var first string
	for i := range n {
		by, err := g.same(ctx, pool)
		if err != nil {
			return 0, err
		}
		if i == 0 {
			first = by
		} else if by != first {
			others++
		}
	}
	return others, nil
}
