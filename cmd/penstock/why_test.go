package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker"
)

// shownPicks is what explain --last prints of records.
func shownPicks(t *testing.T, records ...*picker.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := printPicks(&b, records); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExplain_PicksWithoutVerdictsShowNoNumbersThatDecideNothing(t *testing.T) {
	two, half := 2.0, 0.5
	got := shownPicks(t, &picker.Record{Compared: []picker.Choice{
		{Address: "10.0.0.1:80", Cost: &two, Cached: 64}, {Address: "10.0.0.2:80", Score: &half}, {Address: "10.0.0.3:80"}, {Address: "10.0.0.4:80", Cached: 64, Trial: true},
	}})
	for _, want := range []string{"10.0.0.1:80: cost 2.000, 64 tokens cached\n", "10.0.0.2:80: score 0.500\n", "10.0.0.3:80\n", "10.0.0.4:80: 64 tokens cached, suspect: the request tries it\n"} {
		if !strings.Contains(got, "  "+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
