package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var built options

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "zl")
		if err == nil {
			built.Dir = dir
			defer func() { _ = os.RemoveAll(dir) }()
			err = built.binaries(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func short(t *testing.T) options {
	o := options{Seed: 1, Penstock: built.Penstock, Envoy: built.Envoy, Steps: 20, Rate: 30, Streams: 6, Events: 25,
		Drain: 5 * time.Second, Pace: 150 * time.Millisecond, Restarts: 1}
	// The path of a Unix socket must be short, so t.TempDir is not suitable.
	dir, err := os.MkdirTemp("", "zl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o.Dir = dir
	return o
}

func losesNothing(t *testing.T, o options) {
	t.Helper()
	r, err := newRun(o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.play(t.Context())
	var text strings.Builder
	explain(&text, o, res)
	if err != nil || len(res.Failures) > 0 {
		t.Errorf("%d of %d requests failed (%v), want none\n%s", len(res.Failures), res.Requests, err, text.String())
	}
	if res.Changes < o.Steps || res.Requests < int64(5*o.Rate) {
		t.Errorf("only %d changes and %d requests: too few to prove anything, want at least %d and at least %d",
			res.Changes, res.Requests, o.Steps, int64(5*o.Rate))
	}
}

func TestZeroLoss_FolderChangesLoseNoRequest(t *testing.T) {
	t.Parallel()
	o := short(t)
	o.Up = true
	losesNothing(t, o)
}

func TestZeroLoss_RestartsLoseNoRequest(t *testing.T) {
	t.Parallel()
	o := short(t)
	o.Seed = 2
	losesNothing(t, o)
}

// The harness must detect a lost request. Otherwise runs without a loss would prove nothing.
func TestZeroLoss_LostRequestIsReported(t *testing.T) {
	served := &target{host: "a.test", fleets: map[string]time.Time{}}
	served.expect([]string{"f0"}, time.Now())
	served.expect([]string{"f1"}, time.Now())
	if now := time.Now(); !served.may("f0", now) || !served.may("f1", now) || served.may("f2", now) ||
		served.may("f0", now.Add(2*settled)) {
		t.Error("after a change the old backend may answer for a while, the new one at any time, and no other")
	}
	for what, text := range map[string]string{
		"an event is missing": "data: {}\n\ndata: 0\n\ndata: 2\n\n",
		"the end is missing":  "data: {}\n\ndata: 0\n\ndata: 1\n\n", "nothing came": "",
	} {
		if _, err := readStream(strings.NewReader(text), 2); err == nil {
			t.Errorf("%s, and the stream counts as complete, want an error", what)
		}
	}
	if _, err := readStream(strings.NewReader("data: {}\n\ndata: 0\n\ndata: 1\n\ndata: [DONE]\n\n"), 2); err != nil {
		t.Error(err)
	}
	o := options{Seed: 7, Steps: 3, Dir: t.TempDir()}
	var out strings.Builder
	explain(&out, o,
		result{Failures: []failure{{At: time.Now(), Step: 1, Host: "a.test", Cause: "503"}},
			Log: []string{time.Now().Format("15:04:05.000") + " step 1 move"}})
	for _, want := range []string{"a.test", "503", "step 1 move", "-seed 7 -steps 3", "-play 1-2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q", out.String(), want)
		}
	}
}

func sequence(t *testing.T, seed uint64, steps int) (did []string) {
	t.Helper()
	r, err := newRun(options{Seed: seed, Rate: 1, Events: 5, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.end() }()
	for step := 1; step <= steps; step++ {
		text, err := r.world.next(seed, uint64(step), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.world.stopped {
			s.stop()
		}
		text, _, _ = strings.Cut(text, " at ") // ports differ between runs
		did = append(did, text)
	}
	return did
}

func TestZeroLoss_SeedRepeatsSequence(t *testing.T) {
	a, b := sequence(t, 3, 300), sequence(t, 3, 300)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("step %d: got %q and %q, want the same", i, a[i], b[i])
		}
	}
}

// Each kind of change that zeroloss promises to cover must occur often in 1,000 steps.
func TestZeroLoss_EveryPromisedChangeHappens(t *testing.T) {
	count := map[string]int{}
	for _, did := range sequence(t, 1, 1000) {
		kind, _, _ := strings.Cut(did, ":")
		count[kind]++
	}
	for promise, kinds := range map[string][]string{
		"routes moved between clusters that are deleted": {"move", "split"}, "pools renamed": {"rename-pool"},
		"policies edited": {"strategy", "failure-mode", "full", "no-policy"}, "ext_proc's mode changed": {"body"},
		"pickers swapped":      {"picker"},
		"certificates rotated": {"certificate"}, "listeners added, changed and removed": {
			"listener-add", "certificate-ref", "listener-change", "listener-remove",
		},
		"endpoints churning": {"server-add", "server-late", "server-drain", "server-remove"},
		"imports drained":    {"import-drain", "import-add", "import-remove", "import-weight", "import-mode"},
		"spill sets changed": {"spill"},
	} {
		for _, kind := range kinds {
			if count[kind] < 5 {
				t.Errorf("%s: %s happens %d times in 1,000 steps, want at least 5", promise, kind, count[kind])
			}
		}
	}
	if n := count["nothing to change"]; n > 0 {
		t.Errorf("%d of 1,000 changes change nothing, want 0", n)
	}
}

func TestZeroLoss_FailingSequenceIsShortenedAndReplayed(t *testing.T) {
	steps, err := parseSteps("1-3,5,7-40")
	if err != nil || formatSteps(steps) != "1-3,5,7-40" {
		t.Errorf(`steps: got %v %v, want "1-3,5,7-40"`, steps, err)
	}
	for _, bad := range []string{"", "a", "3-1", "1-"} {
		if _, err := parseSteps(bad); err == nil {
			t.Errorf("%q were parsed as steps, want an error", bad)
		}
	}
	tries := 0
	got := shorter(steps, func(s []int) bool {
		tries++
		return slices.Contains(s, 5) && slices.Contains(s, 33)
	})
	if formatSteps(got) != "5,33" || tries > 60 {
		t.Errorf(`%s remains after %d tries, want "5,33" and at most 60`, formatSteps(got), tries)
	}
	o := options{Seed: 7, Steps: 40, Play: got}
	script := o.script([]string{"10:00:00.000 step 5 move: r1", "10:00:01.000         wrote [=a.yaml]",
		"10:00:02.000 step 33 split: r2"})
	for _, want := range []string{"#   5 move: r1\n#   33 split: r2\n", "-seed 7 -steps 40 ", "-play 5,33\n"} {
		if !strings.Contains(script, want) {
			t.Errorf("got\n%s\nwant %q", script, want)
		}
	}
}
