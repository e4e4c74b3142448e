package demo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestDemo_ExcerptShowsCommentedLinesWithParents(t *testing.T) {
	got := excerpt(`# What this file is about.
apiVersion: v1
kind: Route
metadata: {name: a}
spec:
  parent: gw
  rules:
  - matches:
    - path: /a
    backends:
    - {name: x}   # the one
    - {name: y}
---
kind: Silent
spec: {}
---
kind: Other
status: 1   # so
`)
	want := []string{
		"kind: Route", "metadata: {name: a}", "spec:", "  rules:", "  - matches:", "    backends:",
		"    - {name: x}   # the one",
		"---", "kind: Other", "status: 1   # so",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want this excerpt (-want +got):\n%s", diff)
	}
}

func TestDemo_EveryStepShowsItsImportantLines(t *testing.T) {
	ports := map[string]int{"here": 1, "east": 2, "east-picker": 3, "stores-tokens": 4, "sends-tokens": 5}
	for i, server := range servers {
		ports[server.name] = 10 + i
	}
	texts, err := poolsScript().texts()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range texts.Steps {
		if step.File == "" {
			continue
		}
		text, err := render("config", step.File, ports)
		if err != nil {
			t.Error(err)
		}
		if lines := excerpt(text); len(lines) < 5 || len(lines) > 25 {
			t.Errorf("%s shows %d lines of YAML, want 5 to 25:\n%s", step.File, len(lines), strings.Join(lines, "\n"))
		}
		if step.Prefix != "" && !strings.Contains(text, "value: "+step.Prefix+"}") {
			t.Errorf("%s has no route for %s", step.File, step.Prefix)
		}
	}
	paths, err := fs.Glob(config, "config/*/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("files: got %v %v, want some", paths, err)
	}
	for _, path := range paths {
		if _, err := render("", path, ports); err != nil {
			t.Error(err)
		}
	}
}

func TestDemo_EveryStepHasItsText(t *testing.T) {
	for _, s := range []script{poolsScript(), setScript(), enginesScript()} {
		texts, err := s.texts()
		if err != nil || len(texts.Steps) != len(s.steps) {
			t.Errorf("%s: got %d texts for %d steps, %v", s.folder, len(texts.Steps), len(s.steps), err)
		}
		for _, step := range texts.Steps {
			if step.Title == "" || step.Intro == "" {
				t.Errorf("%s: got %+v, want a title and an intro", s.folder, step)
			}
		}
	}
}

func TestDemo_UnknownPortInYAMLIsAnError(t *testing.T) {
	if _, err := render("config", "here/parent-mode.yaml", map[string]int{"here": 1}); err == nil ||
		!strings.Contains(err.Error(), "${east}") {
		t.Errorf("got %v, want ${east}", err)
	}
}

func TestDemo_BufferedStreamFails(t *testing.T) {
	var flowing, held []time.Duration
	for i := range 10 {
		flowing = append(flowing, time.Duration(i)*perToken)
		held = append(held, 10*perToken+time.Duration(i))
	}
	if err := try(func() { checkStreamed(flowing) }); err != nil {
		t.Error(err)
	}
	if err := try(func() { checkStreamed(held) }); err == nil {
		t.Error("chunks that all arrive at the end pass as a stream")
	}
	if err := try(func() { checkStreamed(held[:1]) }); err == nil {
		t.Error("one chunk passes as a stream")
	}
}

func TestDemo_AnswerFromOtherServerFails(t *testing.T) {
	for _, c := range []struct {
		a  answer
		ok bool
	}{
		{answer{Status: 200, By: "llama-2"}, true},
		{answer{Status: 200, By: "east-llama-2"}, false},
		{answer{Status: 503, By: "llama-2"}, false},
		{answer{Status: 200}, false},
	} {
		if err := try(func() { c.a.expectFrom("llama-") }); (err == nil) != c.ok {
			t.Errorf("%+v: got %v, want it to pass: %t", c.a, err, c.ok)
		}
	}
}

func TestDemo_UnevenSplitFails(t *testing.T) {
	for _, c := range []struct {
		here, east int
		ok         bool
	}{{105, 95, true}, {65, 135, true}, {64, 136, false}, {200, 0, false}, {0, 200, false}} {
		if err := try(func() { checkEven(c.here, c.east) }); (err == nil) != c.ok {
			t.Errorf("%d here and %d in east: got %v, want it to pass: %t", c.here, c.east, err, c.ok)
		}
	}
}

func spills() []spilled {
	var all []spilled
	for i := range spillRequests {
		r := spilled{answer{By: "east-llama-1", At: "127.0.0.1:9"},
			picker.Record{Result: "spilled", Endpoints: "envoy://hop/"}}
		if i < 4 {
			r = spilled{answer{By: names("llama")[i%2], At: "127.0.0.1:1"},
				picker.Record{Result: "picked", Endpoints: "127.0.0.1:1,envoy://hop/"}}
		}
		all = append(all, r)
	}
	return all
}

func TestDemo_SpillBeforeOrAfterFullPoolFails(t *testing.T) {
	if err := try(func() { overflowed(spills()) }); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(all []spilled){
		"a request was spilled before the pool was full":   func(all []spilled) { all[3] = all[9] },
		"a request stayed here although the pool was full": func(all []spilled) { all[4] = all[3] },
		"a server got three":                               func(all []spilled) { all[1].By = all[0].By },
		"the picker named another server than answered":    func(all []spilled) { all[0].At = "127.0.0.1:2" },
		"the picker did not spill it":                      func(all []spilled) { all[9].pick.Result = "picked" },
	} {
		all := spills()
		change(all)
		if try(func() { overflowed(all) }) == nil {
			t.Errorf("%s, and the step passes, want it to fail", name)
		}
	}
}

// The verdicts of a pick do not count the request itself.
func TestDemo_ReasonOfPickHasTheLoadOfTheChoice(t *testing.T) {
	verdict := func(name string, inFlight int64) schedule.Verdict {
		return schedule.Verdict{Address: name, Pod: name + "/127.0.0.1", State: endpoint.State{InFlight: inFlight}}
	}
	pick := picker.Record{Result: "picked", Endpoints: "a,b",
		Verdicts: []schedule.Verdict{verdict("a", 0), verdict("b", 0)}}
	if got := comparison(pick); !strings.Contains(got, "equal load") {
		t.Errorf("with no other request in flight: got %s, want equal load", got)
	}
	pick.Verdicts = []schedule.Verdict{verdict("a", 0), verdict("b", 3)}
	if got := comparison(pick); !strings.Contains(got, "a 0, b 3") {
		t.Errorf(`with three requests at b: %s, want a text with "a 0, b 3"`, got)
	}
}

func TestDemo_BrokenStreamIsAnError(t *testing.T) {
	read := func(text string) (int, error) {
		body := strings.NewReader(text)
		return (&stream{events: bufio.NewScanner(body)}).read(ignore)
	}
	piece := `data: {"choices": [{"delta": {"content": "word"}}]}` + "\n\n"
	if n, err := read(piece + piece + `data: {"choices": [{"delta": {}}]}` + "\n\ndata: [DONE]\n\n"); n != 2 ||
		err != nil {
		t.Errorf("a whole stream: %d chunks, %v, want 2", n, err)
	}
	if _, err := read(piece); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream without its end: got %v, want an unexpected EOF", err)
	}
	if _, err := read("data: {\n\n"); err == nil {
		t.Error("a chunk that is no JSON passes")
	}
}

func shell(script string) *cluster {
	return &cluster{name: "here",
		cmd: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "sh", "-c", script) }}
}

func TestDemo_ExitOfPenstockIsReportedWithItsOutput(t *testing.T) {
	err := shell("echo no such Envoy >&2; exit 3").Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "no such Envoy") {
		t.Errorf("got %v, want exit status 3 with no such Envoy", err)
	}
}

func TestDemo_PenstockGetsSIGTERMAtTheEnd(t *testing.T) {
	c := shell(
		"trap 'echo drained; exit 0' TERM; echo Gateway default/gw serves at http://127.0.0.1:1; echo error: a " +
			"mistake; while :; do sleep 0.01; done")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	if err := try(func() { c.served(ctx) }); err != nil || c.url() != "http://127.0.0.1:1" {
		t.Errorf(`it serves at %q, %v, want "http://127.0.0.1:1"`, c.url(), err)
	}
	poll.Until(t, "the finding", func() bool { return c.finding() == "a mistake" })
	cancel()
	if err := <-done; err != nil || !strings.Contains(c.output(), "drained") {
		t.Errorf("got %v; output:\n%s\nwant drained", err, c.output())
	}
}

func TestDemo_ColoursOnlyInTerminals(t *testing.T) {
	var plain, painted strings.Builder
	for _, p := range []*page{{w: &plain}, {w: &painted, colour: true}} {
		p.heading("1  A title")
		p.yaml("here/a.yaml", "saved", []string{"a: b # why"})
		p.answer(answer{By: "llama-1", Text: "Hello", Took: time.Second})
		p.ok("seen")
		p.failed(errors.New("expected this"))
	}
	if strings.Contains(plain.String(), "\x1b") || strings.Count(painted.String(), "\x1b[0m") < 6 {
		t.Errorf("plain:\n%q\npainted:\n%q\nwant colours in the second alone", plain.String(), painted.String())
	}
	for _, want := range []string{"1  A title", "│ a: b # why", `"Hello" in 1000 ms`, "✓ seen", "✗ expected this"} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("got\n%s\nwant %q", plain.String(), want)
		}
	}
}

func TestDemo_TextIsWrapped(t *testing.T) {
	if diff := cmp.Diff([]string{"one two", "three", "four"}, wrap("one two  three\nfour", 8)); diff != "" {
		t.Errorf("want these lines (-want +got):\n%s", diff)
	}
}
