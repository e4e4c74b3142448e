package delivery

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

func TestEndpointPickerConfig_ReachesThePicker(t *testing.T) {
	var s model.PickerSettings
	s.UnverifiedTLS, s.MetricsPath, s.FullInFlight = true, "/stats", 20
	s.FlowControl = model.FlowControl{On: true, TTL: time.Minute, InFlight: 10,
		TTLs: []model.BandTTL{{Priority: 3, TTL: time.Second}, {Negative: true, TTL: 2 * time.Second}}}
	got := pickerPool(translator.PickerPool{Pool: &model.Pool{Settings: s}})
	if tls := got.Metrics.Protocol.TLS; tls == nil || !tls.InsecureSkipVerify || got.Metrics.Protocol.Key == "" ||
		got.Metrics.Path != "/stats" {
		t.Errorf("pages: got %+v, want unverified TLS, a key, and /stats", got.Metrics)
	}
	if f := got.FlowControl; f.InFlight != 10 || f.Wait(3) != time.Second || f.Wait(-1) != 2*time.Second ||
		f.Wait(0) != time.Minute || f.Order == flow.Deadline {
		t.Errorf("flow control: got %+v, want 10 in flight, and waits of 1 s, 2 s and 1 min", f)
	}
	s.FlowControl.InFlight = 30 // above the limit at which an endpoint is full
	if f := pickerPool(translator.PickerPool{Pool: &model.Pool{Settings: s}}).FlowControl; f.InFlight != 20 {
		t.Errorf("%d requests in flight, want 20", f.InFlight)
	}
	s.UnverifiedTLS = false
	if got := pickerPool(translator.PickerPool{Pool: &model.Pool{Settings: s}}); got.Metrics.Protocol.TLS != nil {
		t.Error("pages are read over TLS")
	}
}
