package picker

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// kinds returns a pool and a request for each kind of target, and for each resource that a pick may
// hold besides its lease.
func kinds(t *testing.T) map[string]struct {
	pool    Pool
	request extproc.Request
} {
	remote := &remotePicker{}
	relay := relayed(remote.serve(t))
	remote.name("10.1.0.5:8000", false)
	processor := startProcessor(t)
	processor.set(`{"tokens":[1,2,3],"count":3,"worker":"10.0.0.1:80"}`, 200)
	processor.Route = true
	stays := clustersOf(2)
	stays.Sessions = true
	type kind = struct {
		pool    Pool
		request extproc.Request
	}
	body := func() extproc.Request { return *longPrompt(600, 1, 2, 3) }
	imported := body()
	imported.Imported, imported.Gateway = true, ""
	processed := *bodied(`{"model":"m","prompt":"a"}`)
	return map[string]kind{
		"servers":      {Pool{Endpoints: specs(first, second)}, body()},
		"imported":     {Pool{Endpoints: specs(first, second)}, imported},
		"sessions":     {Pool{Strategy: "session", Endpoints: specs(first, second)}, body()},
		"limits":       {Pool{Full: schedule.Full{InFlight: 1}, Endpoints: specs(first)}, body()},
		"flow control": {Pool{FlowControl: oneAtATime(flow.Limits{}), Endpoints: specs(first)}, body()},
		"shadow":       {Pool{Shadow: "least-request", Endpoints: specs(first, second)}, body()},
		"further": {
			Pool{Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
				Endpoints: withRoles(first, "decode", second, "prefill")}, body(),
		},
		"processor":        {Pool{Processor: &processor.Processor, Endpoints: specs(first, second)}, processed},
		"clusters":         {Pool{Clusters: clustersOf(2)}, body()},
		"stays":            {Pool{Clusters: stays}, body()},
		"remote":           {relay, body()},
		"remote, imported": {relay, imported},
	}
}

// If a stage panics, at any point of a pick, no lease, server, cluster, remote picker or flow
// control queue counts the request any longer.
func TestPick_EndBetweenAnyTwoStagesLeavesNoLease(t *testing.T) {
	for name, kind := range kinds(t) {
		for at := range stages() {
			c := &counting{chooser: chooser{clusters: map[objectid.Target]*Clusters{}}}
			p := runPicker(t, Config{Chooser: c})
			kind.pool.ID = poolID("ns/pool")
			setPools(t, p, kind.pool)
			p.stages = slices.Insert(stages(), at,
				stage{name: "panic", at: stages()[at].at, always: true,
					run: func(*pick) { panic("between two stages") }})
			r := kind.request
			r.Body = mem.BufferSlice{mem.SliceBuffer(`{"model":"m","prompt":"a"}`)}
			before := p.stages[at].name + " before " + stages()[at].name
			func() {
				defer func() {
					if recover() == nil {
						t.Fatalf("%s: %s did not end the pick, want a panic", name, before)
					}
				}()
				k, err := p.Begin(t.Context(), &r)
				if err != nil {
					t.Fatal(err)
				}
				k.Body()
				k.Replacement("m")
				k.Answer()
			}()
			pool := p.pool("ns/pool")
			var inFlight int64
			for i := range pool.snapshot.Endpoints {
				inFlight += pool.snapshot.Endpoints[i].State().InFlight
			}
			if p.leases.Len() != 0 || inFlight != 0 || p.others.nowhere.InFlight() != 0 || p.Imported() != 0 {
				t.Errorf("%s: %s leaves %d leases, %d and %d requests in flight, %d of other clusters, want 0, 0, 0, 0",
					name, before,
					p.leases.Len(), inFlight, p.others.nowhere.InFlight(), p.Imported())
			}
			if c.open != 0 {
				t.Errorf("%s: %s leaves %d charges of clusters, want 0", name, before, c.open)
			}
			if pool.queue.On() && pool.queue.Unplaced() != 0 {
				t.Errorf("%s: %s leaves %d admitted requests without a place, want 0",
					name, before, pool.queue.Unplaced())
			}
			if pool.remote != nil {
				poll.Until(t, name+": the remote picker's call ends after "+before,
					func() bool { return pool.remote.Open() == 0 })
			}
		}
	}
}

type counting struct {
	chooser
	open int
}

func (c *counting) Choose(pool objectid.Target, p ClusterPrompt, charged bool, out []ClusterCost) ([]ClusterCost,
	Charge) {
	ranked, charge := c.chooser.Choose(pool, p, charged, out)
	if charge != nil {
		c.open++
		charge = c
	}
	return ranked, charge
}

func (c *counting) End() { c.open-- }

// stageCheck checks a stage's effect: holds returns true with the stage, and false without it.
type stageCheck struct {
	test  string // a test of more of the picker that also fails without the stage
	holds func(p *Picker, pool Pool) bool
}

func requestChecks(t *testing.T) map[string]stageCheck {
	processor := startProcessor(t)
	awake := 0
	return map[string]stageCheck{
		"admit": {"TestPickerKey_OpensPoolsOfItsGatewayAlone", func(p *Picker, pool Pool) bool {
			p.config.Access = &access{allowed: map[[2]string]bool{}, lagging: true}
			setPools(t, p, pool)
			_, err := p.Begin(t.Context(), longPrompt(600))
			return err != nil
		}},
		"read": {"TestExtProc_PromptsAreReadOnlyWhereTheyAreKnown", func(p *Picker, pool Pool) bool {
			pool.Body = BodyBuffered
			setPools(t, p, pool)
			return p.begin(t.Context(), longPrompt(600)).Body().Wait
		}},
		"rewrite": {"TestInferenceModel_EnvoySendsTheTargetInEveryMode", func(p *Picker, pool Pool) bool {
			pool.Models = &Models{
				Named: map[string]ModelRule{"public": {Targets: []ModelTarget{{Name: "v1", Weight: 1}}}},
			}
			setPools(t, p, pool)
			k := p.begin(t.Context(), longPrompt(600))
			k.Body()
			target := k.Replacement("public")
			return target != nil && target.Name == "v1"
		}},
		"wake": {"TestPicker_PickAfterAStopNamesWhatHasChanged", func(p *Picker, pool Pool) bool {
			before := awake
			p.config.Stops = stops(func(time.Time) time.Duration { awake++; return 0 })
			setPools(t, p, pool)
			answerOf(t, p)
			return awake > before
		}},
		"find": {"TestExtProc_EnvoyFollowsPickInEveryMode", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			return len(answerOf(t, p).Endpoints) > 0
		}},
		"resume": {"TestResume_ARequestWaitsForTheServerThatItStarts", func(p *Picker, pool Pool) bool {
			on := newStarts(time.Nanosecond)
			p.config.OnDemand, pool.Endpoints = on, nil
			setPools(t, p, pool)
			return answerOf(t, p).Reason == ReasonResumeTime
		}},
		"recall": {"TestResponseAffinity_FollowUpGoesToItsServer", func(p *Picker, pool Pool) bool {
			pool.Responses, pool.Endpoints = true, specs(first, second)
			setPools(t, p, pool)
			for range 8 {
				if followUp(t, p, second).Endpoints.String() != second {
					return false
				}
			}
			return true
		}},
		"hold": {"TestFlowControl_RequestWaitsForSaturatedPool", func(p *Picker, pool Pool) bool {
			pool.FlowControl, pool.Endpoints = oneAtATime(flow.Limits{EmptyTTL: time.Nanosecond}), nil
			setPools(t, p, pool)
			answerOf(t, p)
			return p.Picks(Picks{})[0].Waited > 0
		}},
		"process": {"TestProcessor_AnswerDecidesTheRequest", func(p *Picker, pool Pool) bool {
			before := processor.calls
			pool.Processor = &processor.Processor
			setPools(t, p, pool)
			p.Pick(t.Context(), bodied(`{"model":"m","prompt":"a"}`))
			return processor.calls > before
		}},
	}
}

func pickChecks(t *testing.T) map[string]stageCheck {
	return map[string]stageCheck{
		"restrict": {"TestSubsetHint_OnlyItsEndpointsArePicked", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			r := longPrompt(600)
			r.Subset = "no=such"
			return p.Pick(t.Context(), r).Reason == ReasonSubset
		}},
		"prompt": {"TestMetrics_RequestsAndTokensByModel", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			answerOf(t, p)
			return p.Picks(Picks{})[0].Tokens == 600
		}},
		"score": {"TestPlugins_ThroughEnvoyExternalScorerDecides", func(p *Picker, pool Pool) bool {
			pool.Scorers = []Scorer{{}}
			setPools(t, p, pool)
			k := p.begin(t.Context(), longPrompt(600))
			asked := false
			p.stages = append(p.stages, stage{at: atRequest, run: func(k *pick) { asked = k.query.External != nil }})
			k.Answer()
			return asked
		}},
		"rank": {"TestDisagg_StagesAreNamed", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			return answerOf(t, p).Endpoints.String() == first
		}},
		"lease": {"TestRetry_ChargesTheEndpointThatServes", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			answerOf(t, p)
			return p.leases.Len() == 1 && inFlight(p, first) == 1
		}},
		"spill": {"TestSpill_RouteWithoutTargetsYetIsStillServed", func(p *Picker, pool Pool) bool {
			pool.Endpoints = nil
			setPools(t, p, pool)
			return answerOf(t, p).Reason == ReasonNoEndpoints
		}},
		"answer": {"TestEndpointPicker_RetriesFollowThePicksList", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			return len(answerOf(t, p).Endpoints) > 0
		}},
		"note": {"TestExplain_EveryPickIsKnownWithItsOutcome", func(p *Picker, pool Pool) bool {
			setPools(t, p, pool)
			answerOf(t, p)
			return len(p.Picks(Picks{})) == 1
		}},
	}
}

func answerOf(t *testing.T, p *Picker) extproc.Answer { return p.Pick(t.Context(), longPrompt(600)) }

// A missing stage in the table is no compile error. So each stage has a check that fails without
// the stage, and names another test that also fails.
func TestStages_WithoutOneItsPromiseIsBroken(t *testing.T) {
	checks := requestChecks(t)
	maps.Copy(checks, pickChecks(t))
	holds := func(c stageCheck, without string) (ok bool) {
		defer func() {
			if recover() != nil {
				ok = false // a later stage panicked because the stage is missing
			}
		}()
		p := runPicker(t, Config{})
		p.stages = slices.DeleteFunc(stages(), func(s stage) bool { return s.name == without })
		return c.holds(p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first)})
	}
	written := ""
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		written += string(text)
	}
	for _, s := range stages() {
		c, ok := checks[s.name]
		switch {
		case !ok:
			t.Errorf("stage %s has no check: write what breaks without it", s.name)
		case !strings.Contains(written, "func "+c.test+"("):
			t.Errorf("stage %s names the test %s, which does not exist", s.name, c.test)
		case !holds(c, ""):
			t.Errorf("the check of stage %s fails with all stages", s.name)
		case holds(c, s.name):
			t.Errorf("the check of stage %s passes without it", s.name)
		}
	}
}

// A record shows the passed stages in order, with their times.
func TestStages_RecordHasTheStagesThatAPickHasPassed(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Body: BodyBuffered, Endpoints: specs(first)},
		Pool{ID: poolID("ns/none")})
	passed := func(pool string) (names []string, record *Record) {
		r := longPrompt(600)
		r.Pool = pool
		k, err := p.Begin(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer k.End()
		k.Body()
		time.Sleep(10 * time.Millisecond) // the body arrives
		k.Answer()
		found := p.records.notes.find(Picks{}, 1)
		record = found[0].record(p.Owner(), true)
		for _, s := range record.Stages {
			names = append(names, s.Stage)
		}
		return names, record
	}
	names, record := passed("ns/pool")
	want := []string{"admit", "read", "wake", "find", "resume", "recall", "hold", "process", "restrict", "prompt",
		"score", "rank", "lease", "spill", "answer"}
	if !slices.Equal(names, want) {
		t.Errorf("a pick has passed %v, want %v", names, want)
	}
	for _, s := range record.Stages {
		want := map[string]string{"admit": "Gateway ns/gw", "read": "2400 bytes of the body",
			"find": "pool ns/pool, strategy load", "prompt": "600 tokens", "rank": "1 candidate", "lease": record.Lease,
			"answer": first}[s.Stage]
		if s.Decided != want {
			t.Errorf("%s: %q, want %q", s.Stage, s.Decided, want)
		}
		if s.Stage == "read" && s.Took < 10*time.Millisecond {
			t.Errorf("the body took %v to arrive, want at least 10 ms", s.Took)
		}
	}
	if names, record = passed("ns/none"); !slices.Contains(names, "spill") || record.Status != 503 {
		t.Errorf("a pick without endpoints has passed %v with status %d, want spill, and 503", names, record.Status)
	}
}

func TestPicker_HasFewFields(t *testing.T) {
	if n := reflect.TypeFor[Picker]().NumField(); n > 15 {
		t.Errorf("Picker has %d fields, want 15 at most: give what belongs together a type of its own", n)
	}
}
