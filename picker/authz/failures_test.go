package authz

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Each 503 is counted, and a log line names its cause, at most once in 10 s.
func TestFailures_LogNamesTheCauseAtABoundedRate(t *testing.T) {
	var text bytes.Buffer
	now := time.Unix(1_800_000_000, 0)
	f := NewFailures(slog.New(slog.NewTextHandler(&text, nil)), func() time.Time { return now })
	for _, step := range []struct {
		after time.Duration
		call  string
		u     Unanswered
		want  string // "" means no line
	}{
		{0, "", Unanswered{Route: "chat", Took: 201 * time.Millisecond}, "in time"},
		{time.Second, "", Unanswered{Took: 201 * time.Millisecond}, ""},
		{logEvery, "", Unanswered{Took: time.Millisecond}, "others=1"},
		{logEvery, causeKeys, Unanswered{Took: time.Millisecond}, "keys: no policy"},
		{logEvery, "", Unanswered{Caller: "ns/alice", Took: time.Second}, "ns/alice"},
		{logEvery, "", Unanswered{Took: time.Millisecond}, "could be reached"},
	} {
		now = now.Add(step.after)
		if step.call != "" {
			f.call(step.call, "no policy")
		}
		text.Reset()
		f.Request(step.u)
		if got := text.String(); step.want == "" && got != "" || !strings.Contains(got, step.want) {
			t.Errorf("%+v logs %q, want %q", step, got, step.want)
		}
	}
	if f.requests != 6 || f.calls[causeKeys] != 1 {
		t.Error(f.requests, f.calls)
	}
}

// A log line names the invalid policy that denies requests, at most once in 10 s.
func TestFailures_LogNamesTheInvalidPolicy(t *testing.T) {
	var text bytes.Buffer
	now := time.Unix(1_800_000_000, 0)
	f := NewFailures(slog.New(slog.NewTextHandler(&text, nil)), func() time.Time { return now })
	for range 3 {
		f.closed("infra/invalid")
	}
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "policy=infra/invalid") {
		t.Errorf("logged %q, want one line with the policy", got)
	}
	text.Reset()
	now = now.Add(logEvery)
	f.closed("infra/invalid")
	if got := text.String(); !strings.Contains(got, "others=2") {
		t.Errorf("logged %q, want others=2", got)
	}
}
