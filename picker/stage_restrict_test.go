package picker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func listing(t *testing.T, names ...string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":[{"id":%q}]}`, strings.Join(names, `"},{"id":"`))
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func asksFor(p *Picker, model string) extproc.Answer {
	facts := request.Facts{Kind: request.ChatCompletions, Model: model}
	return p.Pick(context.Background(), &extproc.Request{
		Pool: "ns/pool", Gateway: "ns/gw", Headers: &extproc.Message{}, Facts: facts,
	})
}

func TestRestrict_ServerThatLacksTheModelIsNotPickedWhileAnotherHasIt(t *testing.T) {
	for _, strategy := range schedule.Names() {
		if strategy == schedule.Plugins {
			continue // needs a profile
		}
		t.Run(strategy, func(t *testing.T) {
			p := runPicker(t, Config{})
			poll.Until(t, "the picker to run", p.asks.runs.Load)
			has, lacks := listing(t, "sql"), listing(t, "llama")
			setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: strategy, Endpoints: specs(has, lacks)})
			for range 20 {
				if got := asksFor(p, "sql"); len(got.Endpoints) == 0 || got.Endpoints[0] != has {
					t.Fatalf("got %v, want %s", got.Endpoints, has)
				}
			}
			if r := p.Picks(Picks{Last: 1})[0]; r.Lacks == nil || *r.Lacks != (Lacks{Unlisted: 1}) {
				t.Errorf("the record has %+v, want one server that does not list the model", r.Lacks)
			}
			got := map[string]bool{}
			for range 60 {
				got[asksFor(p, "served by any").Endpoints[0]] = true
			}
			if len(got) != 2 && strategy != "prefix" && strategy != "chwbl" && strategy != "session" {
				t.Errorf("a model that no list has goes to %v alone, want both servers", got)
			}
		})
	}
}

// A server whose list of models lacks the model is the last choice, because it may still serve the
// model. After a 404 for the model, a server gets no request while another server has the model.
func TestRestrict_ServerThatLacksTheModelTakesItIfNoOtherDoes(t *testing.T) {
	p := runPicker(t, Config{})
	poll.Until(t, "the picker to run", p.asks.runs.Load)
	has, lacks := listing(t, "sql"), listing(t, "llama")
	draining := specs(has, lacks)
	pool := Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: draining, Full: schedule.Full{InFlight: 1},
		Fallbacks: 1}
	setPools(t, p, pool)
	if got := asksFor(p, "sql"); got.Endpoints[0] != has || got.Endpoints[1] != lacks {
		t.Errorf("got %v, want the server that lacks the model for retries", got.Endpoints)
	}
	second := asksFor(p, "sql") // the first server is full
	if second.Endpoints.String() != lacks {
		t.Fatalf("got %v, want the server that is not full", second.Endpoints)
	}
	p.Log(accesslog.Entry{Lease: second.Lease.String(), Gateway: "ns/gw", Served: lacks, Status: 404})
	if got := asksFor(p, "sql"); got.Status != 429 {
		t.Errorf("after a 404: got %d %v, want 429", got.Status, got.Endpoints)
	}
	for i := range pool.Endpoints {
		pool.Endpoints[i].Draining = pool.Endpoints[i].Addr.String() == has
	}
	setPools(t, p, pool)
	if got := asksFor(p, "sql"); got.Endpoints.String() != lacks {
		t.Errorf("the server that has it leaves: got %d %v, want the other one", got.Status, got.Endpoints)
	}
}

// A 404 for an unknown response has no effect on the choice by model.
func TestRestrict_ResponseThatIsNotThereConcernsNoModel(t *testing.T) {
	p := runPicker(t, Config{})
	poll.Until(t, "the picker to run", p.asks.runs.Load)
	a, b := listing(t, "sql"), listing(t, "sql")
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: specs(a, b)})
	facts := request.Facts{Kind: request.Responses, Model: "sql", Previous: request.ResponseOf("resp_gone")}
	asks := func() extproc.Answer {
		return p.Pick(t.Context(), &extproc.Request{
			Pool: "ns/pool", Gateway: "ns/gw", Headers: &extproc.Message{}, Facts: facts,
		})
	}
	answer := asks()
	served := answer.Endpoints[0]
	p.Log(accesslog.Entry{Lease: answer.Lease.String(), Gateway: "ns/gw", Served: served, Status: 404})
	if l := p.pool("ns/pool").holders.Known("sql"); l != nil {
		t.Errorf("after a 404 for a response: got %+v, want no server left out", l)
	}
}
