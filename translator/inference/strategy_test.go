package inference_test

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

func TestPoolPolicy_StrategyDecidesWhetherBodiesAreRead(t *testing.T) {
	for picker, want := range map[string]model.BodyMode{
		"{strategy: random}":                 model.BodyNone,
		"{strategy: random, body: Buffered}": model.BodyBuffered,
		"{strategy: tree}":                   model.BodyBuffered,
		"{strategy: chwbl}":                  model.BodyBuffered,
		"{strategy: tree, body: None}":       model.BodyNone,
	} {
		p := pool(t, world(t, poolWith(picker)), "default/chat")
		if p.Picker.Body != want {
			t.Errorf("%s: mode %s, want %s", picker, p.Picker.Body, want)
		}
	}
}

func TestPoolPolicy_CriticalityReachesThePicker(t *testing.T) {
	for picker, want := range map[string]string{
		"{}":               "Standard",
		"{strategy: tree}": "Standard",
		"{strategy: tree, criticality: Sheddable}": "Sheddable",
	} {
		if p := pool(t, world(t, poolWith(picker)), "default/chat"); p.Settings.Criticality != want {
			t.Errorf("%s: %s, want %s", picker, p.Settings.Criticality, want)
		}
	}
}

func TestPoolPolicy_HashingReachesThePicker(t *testing.T) {
	p := pool(t,
		world(t,
			poolWith(
				"{strategy: chwbl, chwbl: {virtualNodesPerReplica: 10, loadFactorPercent: 200, "+
					"maxUserMessagesForCache: 4}}")), "default/chat")
	if s := p.Settings; s.VirtualNodes != 10 || s.LoadFactorPercent != 200 || s.UserMessages != 4 {
		t.Errorf("%+v, want VirtualNodes 10, LoadFactorPercent 200, UserMessages 4", s)
	}
}

// The picker sets a session's token in the response, so it receives the response's headers.
func TestPoolPolicy_SessionReachesThePicker(t *testing.T) {
	p := pool(t, world(t, poolWith("{strategy: session, session: {ttlSeconds: 60, cookieName: sid}}")), "default/chat")
	if s := p.Settings; s.SessionTTL != 60 || s.SessionCookie != "sid" || !p.Picker.Served ||
		p.Picker.Body != model.BodyNone {
		t.Errorf("got %+v, call %+v; want sessions of 60 s by cookie sid, and no bodies read", s, p.Picker)
	}
	if p := pool(t, world(t, poolWith("{strategy: load}")), "default/chat"); p.Picker.Served {
		t.Error("the picker gets response headers that it does not read")
	}
}

func TestPoolPolicy_ShedAfterReachesThePicker(t *testing.T) {
	for picker, want := range map[string]time.Duration{
		"{}": 0, "{criticality: Sheddable, shedAfter: 1.5s}": 1500 * time.Millisecond,
	} {
		if p := pool(t, world(t, poolWith(picker)), "default/chat"); p.Settings.ShedAfter != want {
			t.Errorf("%s: %s, want %s", picker, p.Settings.ShedAfter, want)
		}
	}
}

func poolWith(picker string) string {
	return `
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
---
kind: PoolPolicy
metadata: {name: chat}
spec: {targetRef: {name: chat}, picker: ` + picker + `}
`
}
