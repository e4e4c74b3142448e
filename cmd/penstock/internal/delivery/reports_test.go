package delivery

import (
	"log/slog"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator"
)

func TestStatus_BoardFollowsTranslation(t *testing.T) {
	board := status.NewBoard(nil)
	d := New(Reports{Board: board, Log: slog.New(slog.DiscardHandler)})
	route := report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: "a"}
	d.Deliver(t.Context(),
		&Change{
			Output: translator.Output{
				Reports: []report.Report{{Owner: route, Findings: []report.Finding{{Problem: "p"}}}},
			},
		})
	if r, ok := board.Get(route); !ok || len(r.Findings) != 1 {
		t.Errorf("the board has %v, want one finding", r)
	}
	d.Deliver(t.Context(), &Change{Output: translator.Output{ReportsGone: []report.Ref{route}}})
	if r, ok := board.Get(route); ok {
		t.Errorf("the board has %v, want nothing", r)
	}
}
