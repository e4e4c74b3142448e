package app

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// A finding names a server's own prefill rate and the inferred rate, once they differ for five
// minutes.
func TestReportedRate_ThatDiffersFromFirstTokensIsAnInfo(t *testing.T) {
	d, now := differences{}, time.Unix(1000, 0)
	measured := func(rate, inferred float64, from endpoint.RateSource) []picker.Rate {
		return []picker.Rate{
			{Pool: objectid.MustParseTarget("ns/pool"), Server: "10.0.0.1:80", Rate: rate, From: from,
				Inferred: inferred},
		}
	}
	for _, tt := range []struct {
		what  string
		after time.Duration
		rates []picker.Rate
		want  string // in the finding; "": no finding
	}{
		{"at first", 0, measured(8000, 2000, endpoint.Reported), ""},
		{"4 min later", 4 * time.Minute, measured(8000, 2000, endpoint.Reported), ""},
		{"5 min later", time.Minute, measured(8000, 2100, endpoint.Reported),
			"server 10.0.0.1:80 reads 8000 tokens/s by its own series, which decide, and 2100 by its first tokens"},
		{"with other values", time.Minute, measured(8000, 2200, endpoint.Reported), "2100 by its first tokens"},
		{"while they agree", time.Minute, measured(8000, 6500, endpoint.Reported), ""},
		{"as they differ again", time.Minute, measured(8000, 2000, endpoint.Reported), ""},
		{"5 min later again", 5 * time.Minute, measured(2000, 8000, endpoint.Reported), "8000 by its first tokens"},
		{"without the server's series", time.Minute, measured(2000, 0, endpoint.Inferred), ""},
		{"without a server", time.Minute, nil, ""},
	} {
		now = now.Add(tt.after)
		reports := d.reports(tt.rates, now)
		var found []report.Finding
		for _, r := range reports {
			found = append(found, r.Findings...)
		}
		switch {
		case tt.want == "" && len(reports) > 0, tt.want != "" && len(found) != 1:
			t.Errorf("%s: got %v, want the finding %q", tt.what, reports, tt.want)
		case tt.want != "" &&
			(!strings.Contains(found[0].Problem, tt.want) || found[0].Severity != report.Info ||
				reports[0].Owner.Name != "pool"):
			t.Errorf("%s: got %v, want %q", tt.what, found[0], tt.want)
		}
	}
	if len(d) > 0 {
		t.Errorf("%d servers are kept that differ no more, want 0", len(d))
	}
}

func TestReportedRate_FindingsOfAPoolAreBounded(t *testing.T) {
	d, now := differences{}, time.Unix(1000, 0)
	var rates []picker.Rate
	for i := range 100 {
		rates = append(rates,
			picker.Rate{Pool: objectid.MustParseTarget("ns/pool"), Server: string(rune('a' + i)), Rate: 1,
				From: endpoint.Reported, Inferred: 2})
	}
	rates = append(rates,
		picker.Rate{Pool: objectid.MustParseTarget("ns/pool@east"), Server: "a", Rate: 1, From: endpoint.Reported,
			Inferred: 2})
	d.reports(rates, now)
	if got := d.reports(rates, now.Add(differFor)); len(got) != 1 || len(got[0].Findings) != maxDiffering {
		t.Errorf("got %v, want one report with %d findings", got, maxDiffering)
	}
}
