package delivery

import (
	"context"
	"slices"
	"testing"
)

func TestDelivery_StepsRunInTheOrderOfStages(t *testing.T) {
	var got []string
	on := func(s Stage, name string) Part {
		return On(s, func(context.Context, *Change) { got = append(got, s.String()+" "+name) })
	}
	New(on(Reach, "a"), on(Commit, "b"), on(Grow, "c"), on(Shrink, "d"), on(Commit, "e"), on(Report, "f")).
		Deliver(t.Context(), &Change{})
	want := []string{"report f", "shrink d", "commit b", "commit e", "grow c", "reach a"}
	if !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
	for s, stage := range stages {
		if stage.name == "" || stage.why == "" {
			t.Errorf("stage %d has no name or no reason", s)
		}
	}
}
