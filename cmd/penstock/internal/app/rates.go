package app

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	compareEvery = time.Minute
	differFor    = 5 * time.Minute
	// differBy is the largest ratio of two rates that count as equal.
	differBy     = 1.3
	maxDiffering = 3
)

// compareRates reports servers whose prefill rates by metrics and by times to first tokens differ.
func compareRates(ctx context.Context, board *status.Board, rates func() []picker.Rate) error {
	every := time.NewTicker(compareEvery)
	defer every.Stop()
	since, reported := differences{}, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-every.C:
			reports := since.reports(rates(), now)
			if len(reports) > 0 || reported {
				board.Replace(status.Rates, reports...)
			}
			reported = len(reports) > 0
		}
	}
}

type differences map[[2]string]*difference

type difference struct {
	since time.Time
	text  string
}

func (d differences) reports(rates []picker.Rate, now time.Time) (out []report.Report) {
	differ, last := map[[2]string]bool{}, objectid.Target{}
	for _, r := range rates {
		if r.From != endpoint.Reported || r.Inferred <= 0 ||
			max(r.Rate, r.Inferred) <= differBy*min(r.Rate, r.Inferred) {
			continue
		}
		at := [2]string{r.Pool.String(), r.Server}
		differ[at] = true
		if d[at] == nil {
			d[at] = &difference{since: now}
		}
		known := d[at]
		if r.Pool.Imported() || now.Sub(known.since) < differFor {
			continue
		}
		if known.text == "" {
			known.text = fmt.Sprintf("server %s reads %.0f tokens/s by its own series, which decide, and %.0f by its "+
				"first tokens", r.Server, r.Rate, r.Inferred)
		}
		if r.Pool != last {
			out, last = append(out, report.Report{Owner: OwnerOf(r.Pool)}), r.Pool
		}
		if owned := &out[len(out)-1]; len(owned.Findings) < maxDiffering {
			owned.Findings = append(owned.Findings, report.Finding{
				Severity: report.Info, Owner: owned.Owner, Problem: known.text,
				Fix: "if other senders use the server, send their requests through the Gateway, too",
			})
		}
	}
	maps.DeleteFunc(d, func(at [2]string, _ *difference) bool { return !differ[at] })
	return out
}
