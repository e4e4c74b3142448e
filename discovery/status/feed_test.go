package status

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func TestAFeedTellsOfWhatChangedAndOfNothingElse(t *testing.T) {
	b := NewBoard(nil)
	a, c := report.Ref{Kind: "HTTPRoute", Name: "a"}, report.Ref{Kind: "HTTPRoute", Name: "c"}
	b.Set(Translation, report.Report{Owner: a})
	f := b.Follow()
	defer f.Close()
	next := func(want ...report.Ref) {
		t.Helper()
		got, err := f.Next(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("told of %v (%v), want %v", got, err, want)
		}
	}
	next(a)
	b.Replace(Files, report.Report{Owner: a}, report.Report{Owner: c})
	next(a, c)
	b.Replace(Files, report.Report{Owner: a}, report.Report{Owner: c, Addresses: []string{"x"}}) // a is as before
	next(c)
	b.Replace(Files)
	b.Remove(Translation, a)
	next(a, c)
}
