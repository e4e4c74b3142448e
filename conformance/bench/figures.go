package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// measurement is a run that produces one or several figures.
type measurement struct {
	names []string // of the figures
	what  string   // for progress
	needs func(config) bool
	run   func(context.Context, config, report) error
}

// report receives a figure of a measurement; a suffix, if any, is joined to its name with '.'.
type report func(name, suffix string, value float64)

// figure describes a name. A limit is the project's own target.
type figure struct {
	unit  string
	limit float64 // the largest acceptable value; negative: none
	about string
}

func (m measurement) gives(chosen *regexp.Regexp) bool {
	return slices.ContainsFunc(m.names, chosen.MatchString)
}

// profiled runs a measurement, with profiles if configured.
func (m measurement) profiled(ctx context.Context, c config) error {
	if c.profiles == "" {
		return m.run(ctx, c, emit)
	}
	cpu, err := os.Create(filepath.Join(c.profiles, m.names[0]+".cpu.prof"))
	if err != nil {
		return err
	}
	defer func() { _ = cpu.Close() }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	err = m.run(ctx, c, emit)
	pprof.StopCPUProfile()
	heap, herr := os.Create(filepath.Join(c.profiles, m.names[0]+".heap.prof"))
	if herr != nil {
		return herr
	}
	defer func() { _ = heap.Close() }()
	if herr := pprof.Lookup("allocs").WriteTo(heap, 0); herr != nil {
		return herr
	}
	return err
}

// output is a JSON line that emit writes.
type output struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Limit *float64 `json:"limit"`
	About string   `json:"about,omitempty"`
}

var emitting sync.Mutex

func emit(name, suffix string, value float64) {
	full := name
	if suffix != "" {
		full += "." + suffix
	}
	f, ok := figures[full]
	if !ok {
		panic("figure without a declaration: " + full)
	}
	o := output{Name: full, Value: round(value), Unit: f.unit, About: f.about}
	if f.limit >= 0 {
		o.Limit = &f.limit
	}
	emitting.Lock()
	defer emitting.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// round keeps three significant digits, as many as are reproducible.
func round(v float64) float64 {
	var out float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.3g", v), "%g", &out)
	return out
}

// median sorts a list and returns its median; 0 if it is empty.
func median[T ~int64 | ~float64](list []T) T {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpuTime is the CPU time of this process so far, in user and kernel mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for invalid arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load is the machine's load average of the last minute, or "" where it cannot be read.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
