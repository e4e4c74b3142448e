package picker

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Every admin page shows why a server is suspect: it is silent, its requests fail, or its metrics
// page is stale while others are fresh. Servers that the strategy does not suspect are not shown.
func TestSuspects_AreShownWithTheirReasons(t *testing.T) {
	pages := endpoint.Reading{Running: 1}
	for name, tt := range map[string]struct {
		strategy string
		change   func(*endpoint.Endpoint)
		kind     schedule.Suspicion
		why      string
	}{
		"silent": {"", func(e *endpoint.Endpoint) { e.Load().Suspect(time.Now()) }, schedule.Silent, "no answer since"},
		"silent, in turns": {
			"round-robin", func(e *endpoint.Endpoint) { e.Load().Suspect(time.Now()) }, schedule.Silent,
			"no answer since"},
		"failing": {"", func(e *endpoint.Endpoint) {
			for range 3 {
				e.Load().RecordFailed("status 503", time.Now())
			}
		}, schedule.Failing, "(status 503)"},
		"failing, in turns": {"round-robin", func(e *endpoint.Endpoint) { e.Load().Died(time.Now()) }, "", ""},
		"stale":             {"", func(*endpoint.Endpoint) {}, schedule.Stale, "metrics page is stale"},
		"a page that is served": {
			"", func(e *endpoint.Endpoint) { e.BeginScrape().Succeed(pages, time.Now()) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			p, err := New(Config{Registerer: registry})
			if err != nil {
				t.Fatal(err)
			}
			setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: tt.strategy, Endpoints: specs(first, second)})
			list := p.pool("ns/pool").snapshot.Endpoints
			list[1].BeginScrape().Succeed(pages, time.Now())
			if name != "stale" {
				list[0].BeginScrape().Succeed(pages, time.Now())
			}
			tt.change(&list[0])
			all := p.Suspects()
			if tt.kind == "" {
				if len(all) != 0 {
					t.Errorf("%+v, want none", all)
				}
				return
			}
			if len(all) != 1 || all[0].Server != first || all[0].Kind != tt.kind ||
				!strings.Contains(all[0].Why, tt.why) {
				t.Fatalf("got %+v, want %s, %s, because of %q", all, first, tt.kind, tt.why)
			}
			v := p.Explain("ns/pool", nil).Verdicts
			if len(v) != 2 || v[0].Suspect != tt.kind || v[1].Suspect != "" ||
				(v[0].Failure != nil) != (tt.kind == schedule.Failing) {
				t.Errorf("explained as %+v, want the first alone %s", v, tt.kind)
			}
			gathered, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			series := 0
			for _, family := range gathered {
				if family.GetName() != "penstock_picker_suspect_endpoints" {
					continue
				}
				for _, m := range family.GetMetric() {
					series++
					want := 0.0
					if m.GetLabel()[0].GetValue() == string(tt.kind) {
						want = 1
					}
					if m.GetGauge().GetValue() != want {
						t.Errorf("the gauge is %v, want %v", m, want)
					}
				}
			}
			if series != len(schedule.Suspicions) {
				t.Errorf("%d series, want %d", series, len(schedule.Suspicions))
			}
		})
	}
}
