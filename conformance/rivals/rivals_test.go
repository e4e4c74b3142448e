package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// TestRivals_PenstockBesideItself runs the whole comparison for some seconds, with real processes,
// a real Envoy, and no rival.
func TestRivals_PenstockBesideItself(t *testing.T) {
	penstock, err := process.Penstock(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	envoy, err := process.Envoy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, missing, err := contenders(t.TempDir(), defaults, nil)
	if err != nil || len(all) != 2 || len(missing) != 2 {
		t.Fatalf("contenders %v, missing %q, %v; want Penstock twice, and two missing rivals", all, missing, err)
	}
	w := workload{name: "small", full: 2, slow: 0.2, thin: 1}
	w.draw = func(rate float64, lasts time.Duration) ([]request, error) {
		var requests []request
		for i := range int(math.Round(rate * lasts.Seconds())) {
			at := time.Duration(float64(i) / rate * float64(time.Second))
			blocks := []uint64{uint64(i % 3), uint64(i)}
			requests = append(requests, request{at: at, input: 600, output: 5, blocks: blocks})
		}
		return requests, nil
	}
	const lasts = 2 * time.Second
	p, err := run(t.Context(), penstock, envoy, w, all, usual.load, lasts)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := w.plan(usual.load, serversOfFleet, lasts)
	if err != nil || len(planned) != int(usual.load*2*serversOfFleet*10) {
		t.Fatalf("%d requests are planned, %v, want %d", len(planned), err, int(usual.load*2*serversOfFleet*10))
	}
	_, rest := split(planned, time.Duration(warm*float64(lasts)))
	want := len(rest)
	for _, o := range p.outcomes {
		if len(o.samples) != want || o.failed != 0 || o.cached == 0 {
			t.Errorf("%s: %d requests, want %d; %d failed (%v), %d tokens were cached",
				o.name, len(o.samples), want, o.failed, o.first, o.cached)
		}
		for _, s := range o.samples {
			if s.ttft <= 0 || s.end < s.ttft || s.input != 600 || s.server == "" {
				t.Fatalf("%s: got %+v, want a TTFT before the end, 600 tokens of input, and a server", o.name, s)
			}
		}
	}
	if p.outcomes[0].cpu <= 0 {
		t.Error("Penstock has used no CPU")
	}
	if p.late == 0 {
		t.Error("no lateness was recorded")
	}
	p.late = 0 // a busy machine must not make the workload void
	c := compareAll(p)
	var table, lines bytes.Buffer
	c.print(&table)
	for _, text := range []string{secondName, "noise", "TTFT p90"} {
		if !strings.Contains(table.String(), text) {
			t.Errorf("the table: got\n%s\nwant %q", table.String(), text)
		}
	}
	err = emit(&lines, figures([]comparison{c}, usual))
	if err != nil || !strings.Contains(lines.String(), `"name":"rivals_noise"`) {
		t.Errorf(`figures %s, %v, want a text with "\"name\":\"rivals_noise\""`, lines.String(), err)
	}
}

func TestRivals_OneThatIsNotInstalledIsNamed(t *testing.T) {
	var progress bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = compareRivals(ctx, config{rivals: t.TempDir(), workload: "uniform", minutes: 1}, &progress, &progress)
	for _, text := range []string{"sglang-router is not installed", "smg is not installed", "about 1m", "70 % load"} {
		if !strings.Contains(progress.String(), text) {
			t.Errorf("want %q in:\n%s", text, progress.String())
		}
	}
}

func TestRivals_UsersRivalGetsItsPortAndServers(t *testing.T) {
	all, _, err := contenders(t.TempDir(), defaults,
		[]string{"mine=/bin/router --port={port} --urls {workers} --list={commas}"})
	if err != nil {
		t.Fatal(err)
	}
	c := all[len(all)-1]
	got := strings.Join(c.arguments([]string{"http://a", "http://b"}, 7, 8, "file"), " ")
	want := "/bin/router --port=7 --urls http://a http://b --list=http://a,http://b"
	if c.name != "mine" || got != want {
		t.Errorf("%s: %q, want %q", c.name, got, want)
	}
	for _, bad := range []string{
		"mine", "=x {port} {workers}", "mine=", "mine=x {port}", "mine=x {workers}", "Penstock=x {port} {workers}",
	} {
		if _, _, err := contenders(t.TempDir(), defaults, []string{bad}); err == nil {
			t.Errorf("RIVAL %q is accepted, want an error", bad)
		}
	}
}

func TestRivals_InstalledRoutersAreStartedWithDefaults(t *testing.T) {
	dir := t.TempDir()
	for _, pkg := range []string{"sglang_router", "smg"} {
		folder := filepath.Join(dir, ourFolder, "lib", "python3.11", "site-packages", pkg)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "launch_router.py"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, missing, err := contenders(dir, defaults, nil)
	if err != nil || len(missing) != 0 || len(all) != 4 {
		t.Fatalf("got %v, missing %q, %v, want 4, none missing", all, missing, err)
	}
	for _, c := range all[2:] {
		args := fmt.Sprint(c.arguments([]string{"http://a"}, 7, 8, ""))
		if strings.Contains(args, "policy") || !strings.Contains(args, "--worker-urls http://a") {
			t.Errorf("%s is started with %s, want --worker-urls http://a, and no policy", c.name, args)
		}
	}
	all, _, err = contenders(dir, best, nil)
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v, want 4 of them", all, err)
	}
	for _, c := range all[2:] {
		args := fmt.Sprint(c.arguments([]string{"http://a"}, 7, 8, ""))
		if !strings.Contains(args, "--worker-urls http://a --policy cache_aware") {
			t.Errorf(`%s is started with %s, want a text with "--worker-urls http://a --policy cache_aware"`,
				c.name, args)
		}
	}
}

func TestFigures_VoidAndFailedDoNotCount(t *testing.T) {
	comparisonOf := func(name string, late time.Duration, failed int) comparison {
		p := &played{workload: workload{name: name}, late: late, simulated: map[string]float64{"slow": 0.6}}
		for i, c := range []string{penstockName, secondName, "slow", "bad"} {
			o := outcome{contender: contender{name: c}, samples: make([]sample, 100)}
			o.ttft, o.end = make(series, 4), make(series, 4)
			for s := range o.ttft {
				value := []float64{1, 1.01, 2, 0.1}[i]
				o.ttft[s], o.end[s] = []float64{value, value}, []float64{value}
			}
			if c == "bad" {
				o.failed = failed
			}
			p.outcomes = append(p.outcomes, o)
		}
		return compareAll(p)
	}
	values := map[string]float64{}
	for _, f := range figures([]comparison{comparisonOf("chat", time.Millisecond, 2),
		comparisonOf("rag", maxLate+1, 0)}, usual) {
		values[f.Name] = f.Value
	}
	for name, want := range map[string]float64{
		"rivals_p90": 0.5, "rivals_p90_mean": 0.5, "rivals_p90.chat": 0.5, "rivals_p90_mean.slow": 0.5,
		"rivals_restated.slow": 1.2, "rivals_noise": 1.01, "rivals_late": 5,
	} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v in %v", name, values[name], want, values)
		}
	}
	for _, name := range []string{"rivals_p90.rag", "rivals_p90_mean.bad"} {
		if _, ok := values[name]; ok {
			t.Errorf("%s is a figure, want none", name)
		}
	}
	c := comparisonOf("chat", maxLate+1, 0)
	var table bytes.Buffer
	if c.print(&table); !strings.Contains(table.String(), "VOID") || len(c.ratios) != 0 {
		t.Errorf("a void run: got\n%s\nwant VOID, and no ratios", table.String())
	}
}

func TestFigures_LinesHaveBenchsForm(t *testing.T) {
	var lines bytes.Buffer
	limit := 1.1
	all := []figure{{"rivals_p90", 1.234, "ratio", &limit, "what"}, {"rivals_noise", 1, "ratio", nil, ""}}
	if err := emit(&lines, all); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(lines.String()) {
		var object map[string]any
		err := json.Unmarshal([]byte(line), &object)
		if err != nil || object["name"] == nil || object["unit"] != "ratio" {
			t.Errorf("%s: got %v, want a name, and the unit ratio", line, err)
		}
	}
	if !strings.Contains(lines.String(), `"limit":1.1`) || !strings.Contains(lines.String(), `"limit":null`) {
		t.Errorf("got %s, want one limit 1.1, and one null", lines.String())
	}
}

func TestOverhead_IsAboveAServerWithoutRouter(t *testing.T) {
	all := addedOf("1k", []target{
		{name: directName, times: series{{.001, .001, .002}}},
		{name: penstockName, times: series{{.003, .003, .006}}, cpu: 50 * time.Millisecond},
		{name: secondName, times: series{{.003, .003, .006}}},
		{name: smgName, times: series{{.002, .002, .004}}, cpu: 25 * time.Millisecond},
	})
	all[1].rate = 900
	values := map[string]float64{}
	for _, f := range overheadFigures(all) {
		values[f.Name] = f.Value
	}
	for name, want := range map[string]float64{
		"added_1k": 2, "added_1k.p50.direct": 1, "added_1k.p50.Penstock": 2, "added_1k.p99.smg": 2,
		"added_1k.cpu.Penstock": 2, "added_1k.rate.Penstock": 900,
	} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v in %v", name, values[name], want, values)
		}
	}
	if n := len(plain(100<<10, 1)); n < 100<<10 || n > 101<<10 {
		t.Errorf("a request of 100 KB has %d bytes, want at least %d and at most %d", n, 100<<10, 101<<10)
	}
	if string(plain(1<<10, 1)) == string(plain(1<<10, 2)) {
		t.Error("two requests have the same prompt")
	}
}

func TestScenarios_FullHasEachLoadAndSetting(t *testing.T) {
	if all := (&config{}).scenarios(); len(all) != 1 || all[0].suffix() != "" {
		t.Errorf("by default %v are played, want %v alone", all, usual)
	}
	suffixes := map[string]bool{}
	for _, by := range (&config{full: true}).scenarios() {
		suffixes[by.suffix()] = true
	}
	for _, want := range []string{"", ".defaults_50", ".defaults_90", ".best_50", ".best_70", ".best_90"} {
		if !suffixes[want] || len(suffixes) != 6 {
			t.Errorf("figures have the suffixes %v, want %q among six", suffixes, want)
		}
	}
}
