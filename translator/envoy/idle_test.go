package envoy

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

func TestTimeout_IsNotOutvotedByAnIdleLimit(t *testing.T) {
	own, external := &model.PickerCall{Cluster: model.OurPicker},
		&model.PickerCall{Cluster: model.PickerCluster("ns", "epp", 9002), Body: model.BodyDuplex}
	set := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		name    string
		backend model.WeightedBackend
		timeout *time.Duration
		want    time.Duration
	}{
		{"an external picker, no timeout", model.WeightedBackend{Picker: external, External: true}, nil, silentPicker},
		{"an external picker behind hops, no timeout", model.WeightedBackend{Hops: true, External: true}, nil,
			silentPicker},
		{"an external picker, a longer timeout", model.WeightedBackend{Picker: external, External: true},
			set(30 * time.Minute), 30 * time.Minute},
		{"an external picker, timeouts off", model.WeightedBackend{Picker: external, External: true}, set(0),
			streamIdle},
		{"the hop of an external picker", model.WeightedBackend{Picker: external}, nil, streamIdle},
		{"our picker, a shorter timeout", model.WeightedBackend{Picker: own}, set(time.Minute), time.Minute},
		{"our picker, a timeout beyond an hour", model.WeightedBackend{Picker: own}, set(2 * time.Hour), 2 * time.Hour},
		{"a Service, a shorter timeout", model.WeightedBackend{}, set(time.Minute), streamIdle},
		{"a Service, a timeout beyond an hour", model.WeightedBackend{}, set(2 * time.Hour), 2 * time.Hour},
	} {
		if got := idleTimeout(&model.Forward{Backends: []model.WeightedBackend{c.backend}, Timeout: c.timeout}); got !=
			c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
