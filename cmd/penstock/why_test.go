package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

func shownPicks(t *testing.T, records ...*picker.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := printPicks(&b, records, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExplain_PicksWithoutVerdictsShowNoNumbersThatDecideNothing(t *testing.T) {
	two, half := 2.0, 0.5
	got := shownPicks(t,
		&picker.Record{Candidates: 1, Tokens: 1, Endpoints: "10.0.0.4:80,10.0.0.5:80,10.0.0.4:80", Compared: []picker.Choice{
			{Address: "10.0.0.1:80", Cost: &two, Cached: 64}, {Address: "10.0.0.2:80", Score: &half},
			{Address: "10.0.0.3:80"}, {Address: "10.0.0.4:80", Cached: 1, Trial: true},
			{Address: "10.0.0.5:80", Trial: true},
		}})
	if !strings.Contains(got, ", 1 candidate, a prompt of 1 token, ") ||
		!strings.Contains(got, ": 10.0.0.4:80,10.0.0.5:80 (") {
		t.Errorf("got %s, want 1 candidate, 1 token, and two servers, each once", got)
	}
	for _, want := range []string{
		"10.0.0.1:80: cost 2.000, 64 tokens cached\n", "10.0.0.2:80: score 0.500\n", "10.0.0.3:80\n",
		"10.0.0.4:80: 1 token cached, suspect: the request tries it\n",
		"10.0.0.5:80: suspect: the next request may try it\n",
	} {
		if !strings.Contains(got, "  "+want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
}

func TestExplain_PicksWithVerdictsShowThatTheyAreTrials(t *testing.T) {
	for trial, want := range map[string][2]string{
		"due": {"; suspect: the request tries it; 64 tokens cached\n", "; suspect: the next request may try it\n"},
		"speed": {"; its speed was learned long ago: the request tries it; 64 tokens cached\n",
			"; its speed was learned long ago: a sheddable request may try it\n"},
		"wait": {"; suspect: waits for its next trial; 64 tokens cached\n", "; suspect: waits for its next trial\n"},
	} {
		got := shownPicks(t,
			&picker.Record{Endpoints: "10.0.0.1:80,10.0.0.2:80",
				Verdicts: []schedule.Verdict{{Address: "10.0.0.1:80", Trial: trial, Cached: 64},
					{Address: "10.0.0.2:80", Trial: trial}}})
		if !strings.Contains(got, "in flight"+want[0]) || !strings.Contains(got, "in flight"+want[1]) {
			t.Errorf("%s: want %q in\n%s", trial, want, got)
		}
	}
}

// The row of a pick outside of the sample states that it has no verdicts.
func TestExplain_PicksOutsideOfTheSampleAreMarked(t *testing.T) {
	compared := []picker.Choice{{Address: "10.0.0.1:80"}}
	for _, tt := range []struct {
		r    picker.Record
		want bool
	}{
		{picker.Record{Compared: compared}, true},
		{picker.Record{Compared: compared, Verdicts: []schedule.Verdict{{Address: "10.0.0.1:80"}}}, false},
		{picker.Record{Compared: []picker.Choice{{Address: "far", Basis: "its reports"}}}, false},
		{picker.Record{Result: picker.ReasonShed, Status: 429}, false},
	} {
		if got := shownPicks(t, &tt.r); strings.Contains(got, "no details: not in the sample)\n") != tt.want {
			t.Errorf("%+v: got\n%s\nwant no details: %t", tt.r, got, tt.want)
		}
	}
}

func TestExplain_RequestWithoutAPickMayHaveBeenAnsweredBefore(t *testing.T) {
	none := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"picks": []}`)) }))
	defer none.Close()
	if _, err := penstock(t, "explain", "--why", "x", "--http", strings.TrimPrefix(none.URL, "http://")); err == nil ||
		!strings.Contains(err.Error(), "400 or 413") || !strings.Contains(err.Error(), "access log") {
		t.Errorf("got %v, want 400 or 413, and the access log", err)
	}
}

func TestExplain_PicksThatAreMissingAreNamed(t *testing.T) {
	answer := ""
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	defer server.Close()
	for _, tt := range []struct{ answer, args, want string }{
		{
			`{"picks": [], "silent": 1}`, "",
			"1 other process of penstock does not answer: its picks are missing\nno picks are known yet\n",
		},
		{
			`{"picks": [], "silent": 2}`, "",
			"2 other processes of penstock do not answer: their picks are missing\nno picks are known yet\n",
		},
		{`{"picks": []}`, "--pool=default/x", "no picks of pool default/x are known yet\n"},
	} {
		answer = tt.answer
		if got, err := penstock(t, "explain", "--last", "1", "--http", server.URL, "--pool",
			strings.TrimPrefix(tt.args, "--pool=")); err != nil || got != tt.want {
			t.Errorf("%q, %v, want %q", got, err, tt.want)
		}
	}
}

func TestExplain_InterruptedIsNoMissingProcess(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt(errors.New("terminated"))
		<-r.Context().Done() // without this wait, the response could arrive first
	}))
	defer server.Close()
	err := runningAt(server.URL).get(ctx, "/", nil)
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted before the process at 127.0.0.1:") ||
		!strings.HasSuffix(err.Error(), "answered: terminated") {
		t.Errorf("got %v, want that it was interrupted before the process answered", err)
	}
}

// After an interrupt, no old status file is printed, because the process may run.
func TestStatus_InterruptedIsNoMissingProcess(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt(errors.New("terminated"))
		<-r.Context().Done() // without this wait, the response could arrive first
	}))
	defer server.Close()
	cmd := newStatus()
	cmd.SetContext(ctx)
	if err := printStatus(cmd, []running{runningAt(server.URL)}, filepath.Join(t.TempDir(), "none"),
		"text"); err == nil ||
		!strings.HasPrefix(err.Error(), "interrupted before the process at 127.0.0.1:") {
		t.Errorf("got %v, want that it was interrupted before the process answered", err)
	}
}

// A row includes requests that the queue limit counts, but the last metrics page does not show.
func TestExplain_RowHasWhatTheQueueLimitCounts(t *testing.T) {
	for want, s := range map[string]endpoint.State{
		": queue 2 and 1 picked since, running 4,": {Fresh: true, Queue: 2, Running: 4, Unseen: 1},
		": queue 0, running 4,":                    {Fresh: true, Running: 4, Unseen: 1},
	} {
		if got := verdictText(schedule.Verdict{State: s}); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExplain_PicksOfSessionsAndTurnsHaveTheirReason(t *testing.T) {
	got := shownPicks(t, &picker.Record{Strategy: "session", Session: "kept"},
		&picker.Record{Strategy: "round-robin", Result: "picked", Candidates: 3})
	for _, want := range []string{"  session      kept\n", "(strategy round-robin: the next in turn of 3 candidates)"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
}

// power-of-two-picker compares two random servers, so a lower score can win. The output names the
// two.
func TestExplain_PicksByScoresStateHowTheyAreChosen(t *testing.T) {
	low, high := 0.2, 0.9
	got := shownPicks(t,
		&picker.Record{Strategy: "plugins", Choice: "power-of-two-picker", Candidates: 3, Compared: []picker.Choice{
			{Address: "10.0.0.1:80", Score: &low, Drawn: true}, {Address: "10.0.0.2:80", Score: &low, Drawn: true},
			{Address: "10.0.0.3:80", Score: &high},
		}})
	for _, want := range []string{
		"strategy plugins by power-of-two-picker (the higher score of two that are drawn), 3 candidates",
		"  drawn        10.0.0.1:80 10.0.0.2:80\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
	for _, kind := range endpointpicker.Types(endpointpicker.Picker) {
		if choiceTexts[kind] == "" {
			t.Errorf("%s has no text", kind)
		}
	}
	if got := strategyText(picker.Explanation{Strategy: "load", Criticality: schedule.Sheddable}); got !=
		"load, Sheddable requests" {
		t.Errorf("got %q, want load, Sheddable requests", got)
	}
}

func TestExplain_ShedPickNamesTheLimitAndTheValue(t *testing.T) {
	got := shownPicks(t,
		&picker.Record{Result: picker.ReasonShed, Status: 429, Strategy: "tree", Candidates: 2,
			Exceeded: []schedule.Excess{
				{Limit: "waiting requests of strategy tree", Max: 5, Value: 7, Endpoints: 2},
				{Limit: "KV cache of strategy tree", Unit: "%", Max: 80, Value: 85.12345, Endpoints: 1},
				{Limit: "picker.shedAfter", Unit: "s", Max: 1.5, Value: 2.31, Endpoint: "10.0.0.1:80"},
				{Limit: "picker.flowControl.maxBytes", Unit: "bytes", Max: 1e9, Value: 1234567890},
			}})
	for _, want := range []string{
		"waiting requests of strategy tree 5: 7 or more at 2 endpoints",
		"KV cache of strategy tree 80 %: 85.123 % at one endpoint",
		"picker.shedAfter 1.5 s: 2.31 s predicted at 10.0.0.1:80",
		"picker.flowControl.maxBytes 1000000000 bytes: 1234567890 bytes",
	} {
		if !strings.Contains(got, "  limit        "+want+"\n") {
			t.Errorf("got\n%s\nwant the limit %q", got, want)
		}
	}
}

// Adapters whose requests all wait use no LoRA slot.
func TestExplain_WaitingAdaptersTakeNoSlot(t *testing.T) {
	for want, a := range map[string]*endpoint.Adapters{
		", adapters law sql (2 of 2 slots), waiting adapters chat": {
			Running: []string{"law", "sql"}, Waiting: []string{"chat"}, Max: 2,
		},
		", adapters none (0 of 2 slots), waiting adapters chat": {Waiting: []string{"chat"}, Max: 2},
		", adapters sql":                 {Running: []string{"sql"}},
		", adapters none (0 of 4 slots)": {Max: 4},
	} {
		v := schedule.Verdict{Address: "10.0.0.1:80", State: endpoint.State{Fresh: true, Adapters: a}}
		if got := verdictText(v); !strings.Contains(got, "KV cache 0%"+want+", 0 of our") {
			t.Errorf("%+v: %s, want%s", a, got, want)
		}
	}
}

func TestExplain_PicksOfClustersShowTheWholeCost(t *testing.T) {
	cost := 1.5
	got := shownPicks(t, &picker.Record{Result: "cluster", Compared: []picker.Choice{
		{Address: "west", Cost: &cost, Wait: 1, Prompt: 0.375, RoundTrip: 0.025, Margin: 0.1, Basis: "report"},
		{Address: "here", Cost: &cost, Wait: 1.5, Basis: "own requests"},
	}})
	for _, want := range []string{
		"west: cost 1.500 s (wait 1.000 s by report, round trip 0.025 s, prompt 0.375 s, margin of this cluster " +
			"0.100 s)\n", "here: cost 1.500 s (wait 1.500 s by own requests, round trip 0.000 s)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
}

func TestExplain_WhyHasTheReasonOfADecline(t *testing.T) {
	for details, want := range map[string]string{
		"penstock_pool_full": "pool_full: its picker has answered so",
		"ext_proc_error_gRPC_error_14{no_healthy_upstream{no_healthy_upstream}}": "ext_proc_error_gRPC_error_14{no_healthy_upstream{no_healthy_upstream}}: none of its pickers is healthy, or can be connected to",
		"ext_proc_error_gRPC_error_14{remote_connection_failure{upstream_":       "ext_proc_error_gRPC_error_14{remote_connection_failure{upstream_: none of its pickers is healthy, or can be connected to",
		"ext_proc_error_gRPC_error_13": "ext_proc_error_gRPC_error_13: its " +
			"picker has ended the call",
		"no_healthy_upstream": "no_healthy_upstream: its picker " +
			"names none of its endpoints, or none is healthy",
		"upstream_reset_before_response_started{connection_timeout}": "upstream_reset_before_response_started{connection_timeout}: no connection to it",
		"upstream_reset_before_response_started{remote_reset}":       "upstream_reset_before_response_started{remote_reset}: the connection to it has ended",
		"of an Envoy to come": "of an Envoy to come",
		"":                    "its gateway has answered so",
	} {
		got := shownPicks(t, &picker.Record{Sent: &picker.SentTo{Declined: true, Details: details}})
		if !strings.Contains(got, "  details      "+want+"\n") {
			t.Errorf("%q: got\n%s\nwant the details %q", details, got, want)
		}
		if strings.Contains(got, "may have begun the request") != strings.Contains(want, "ended the call") {
			t.Errorf("%q: got\n%s\nwant that a server may have begun the request: %t", details, got,
				strings.Contains(want, "ended the call"))
		}
	}
}
