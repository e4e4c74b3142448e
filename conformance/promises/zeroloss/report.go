package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var nackLine = regexp.MustCompile(`(?i)(envoy|proxy) reject(s|ed)|nack|panic`)

func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

func (o options) replay() string {
	form := ""
	if o.Up {
		form = " -up"
	}
	if o.Envoys > 1 {
		form += fmt.Sprintf(" -envoys %d", o.Envoys)
	}
	if len(o.Only) > 0 {
		form += " -only " + strings.Join(o.Only, ",")
	}
	if o.Play != nil {
		form += " -play " + formatSteps(o.Play)
	}
	long := fmt.Sprintf("-steps %d -restarts %d", o.Steps, o.Restarts)
	if o.Soak > 0 {
		long = fmt.Sprintf("-soak %s", o.Soak)
	}
	return fmt.Sprintf(
		"go run ./promises/zeroloss -seed %d %s -rate %d -streams %d -events %d -drain-time %s -pace %s%s",
		o.Seed, long, o.Rate, o.Streams, o.Events, o.Drain, o.Pace, form)
}

const (
	shownFailures = 20
	shownSteps    = 60
)

func explain(out io.Writer, o options, res result) {
	if len(res.Failures) == 0 {
		return
	}
	logged := accessLog(filepath.Join(o.Dir, "access.log"), res.Failures)
	for _, f := range res.Failures[:min(len(res.Failures), shownFailures)] {
		fmt.Fprintf(out, "FAILED %s\n", f)
		if line := logged[fmt.Sprint(f.ID)]; line != "" {
			fmt.Fprintf(out, "       %s\n", line)
		}
	}
	if more := len(res.Failures) - shownFailures; more > 0 {
		fmt.Fprintf(out, "... and %d more\n", more)
	}
	first := res.Failures[0].At.Format("15:04:05.000")
	fmt.Fprintln(out, "steps until a second after the first failure:")
	var before []string
	for _, line := range res.Log {
		if line[:len(first)] > res.Failures[0].At.Add(1e9).Format("15:04:05.000") {
			break
		}
		before = append(before, line)
	}
	for _, line := range before[max(0, len(before)-shownSteps):] {
		fmt.Fprintf(out, "  %s\n", line)
	}
	o.Play = o.until(res.Failures[0].Step + 1)
	path := filepath.Join(o.Dir, "replay.sh")
	if err := os.WriteFile(path, []byte(o.script(before)), 0o700); err != nil {
		fmt.Fprintln(out, err)
	}
	fmt.Fprintf(out, "to repeat: %s\na script that repeats it, with all steps: %s\nto shorten it: add -shrink 30m\n",
		o.replay(), path)
}

func keepSteps(out io.Writer, dir string, log []string) error {
	fmt.Fprintf(out, "files and logs, with all steps in steps.log: %s\n", dir)
	return os.WriteFile(filepath.Join(dir, "steps.log"), []byte(strings.Join(log, "\n")+"\n"), 0o600)
}

func accessLog(path string, failures []failure) map[string]string {
	wanted := map[string]bool{}
	for _, f := range failures {
		wanted[fmt.Sprint(f.ID)] = true
	}
	out := map[string]string{}
	file, err := os.Open(path)
	if err != nil {
		return out
	}
	defer func() { _ = file.Close() }()
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20)
	id := regexp.MustCompile(`[?&]id=(\d+)`)
	for scan.Scan() {
		if m := id.FindStringSubmatch(scan.Text()); m != nil && wanted[m[1]] {
			out[m[1]] += scan.Text() + " "
		}
	}
	return out
}

type line struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Limit *int    `json:"limit,omitempty"`
}

func figures(out io.Writer, lines ...line) {
	e := json.NewEncoder(out)
	for _, l := range lines {
		_ = e.Encode(l)
	}
}

func (res result) figures() []line {
	none := 0
	ended := line{"failed_requests.restarts", float64(res.Restarts), "restarts", nil}
	if res.Samples != nil {
		ended = line{"failed_requests.faults", 0, "faults", nil}
		for _, times := range res.Faults {
			ended.Value += float64(times)
		}
	}
	return []line{
		{"failed_requests", float64(len(res.Failures)), "requests", &none},
		{"failed_requests.of", float64(res.Requests), "requests", nil},
		{"failed_requests.streams", float64(res.Streams), "requests", nil},
		{"failed_requests.changes", float64(res.Changes), "changes", nil},
		{"failed_requests.standstills", float64(len(res.Stalls)), "times", nil},
		{"failed_requests.in_standstills", float64(res.inStalls()), "requests", nil},
		ended,
	}
}
