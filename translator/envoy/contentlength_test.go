package envoy

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// Routes with an external picker must remove the framing headers. If the body were longer than
// content-length, the server would read the rest as the next client's request.
func TestExternalPicker_DoesNotDecideHowLongABodyIsRead(t *testing.T) {
	for what, c := range map[string]struct {
		cluster model.ClusterID
		removed bool
	}{
		"a pool's own picker":         {model.PickerCluster("ns", "epp", 9002), true},
		"the picker of an import":     {model.ImportPickerCluster("ns", "far", "east"), true},
		"Penstock's, which writes it": {model.OurPicker, false},
	} {
		for _, body := range []model.BodyMode{model.BodyNone, model.BodyDuplex, model.BodyWhole} {
			f := &model.Forward{Backends: []model.WeightedBackend{{
				Weight: 1, Cluster: model.PoolCluster("ns", "chat"),
				Picker: &model.PickerCall{Cluster: c.cluster, Body: body},
			}}}
			b := &builder{}
			for _, calls := range []pickerCalls{allCalls, bodylessCalls} {
				s := b.weightedClusters(f, calls)
				for _, name := range framing {
					if got := slices.Contains(s[0].GetRequestHeadersToRemove(), name); got != c.removed {
						t.Errorf("%s, %s: %s of requests removed: %v, want %v", what, body, name, got, c.removed)
					}
				}
				if _, got := s[0].GetTypedPerFilterConfig()[filterHeaders]; got != c.removed {
					t.Errorf("%s, %s: that of responses removed: %v, want %v", what, body, got, c.removed)
				}
			}
		}
	}
}
