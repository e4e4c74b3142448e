//go:build !lab

package members

import (
	"strings"
	"testing"
	"time"
)

func TestFigures_CountEachRequestAndNothingThatWasNotMeasured(t *testing.T) {
	printed := func(f *figures) string {
		t.Helper()
		var out strings.Builder
		if err := f.print(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var f figures
	if text := printed(&f); text != "" {
		t.Errorf("without an experiment: got %s, want nothing", text)
	}
	f.controlled(requests{sent: 10, failed: 1})
	f.controlled(requests{sent: 5})
	f.experiment(false)
	f.experiment(true)
	control := `{"name":"mc_failed_requests.control","value":1}
{"name":"mc_failed_requests.control_of","value":15}
`
	experiments := `{"name":"mc_failed_requests.experiments","value":2}
{"name":"mc_failed_requests.experiments_failed","value":1}
`
	if text := printed(&f); text != control+experiments {
		t.Errorf("of the control side: got\n%s\nwant\n%s", text, control+experiments)
	}
	f.lost(requests{sent: 7, failed: 2, excepted: 3}, 1500*time.Millisecond)
	f.lost(requests{sent: 1}, time.Second)
	if text := printed(&f); text != control+`{"name":"mc_failed_requests.data","value":2}
{"name":"mc_failed_requests.data_of","value":8}
{"name":"mc_failed_requests.data_excepted","value":3}
{"name":"mc_blackhole","value":1.5}
`+experiments {
		t.Errorf("of both sides:\n%s", text)
	}
}
