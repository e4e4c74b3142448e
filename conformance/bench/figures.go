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

// measurement is one run, which gives one or several figures.
type measurement struct {
	names []string // of the figures
	what  string   // for a person who waits
	needs func(config) bool
	run   func(context.Context, config, report) error
}

// report takes a figure of a measurement; a suffix, if any, is joined to its name with '.'.
type report func(name, suffix string, value float64)

// figure is what is promised about a name. A limit is what the project holds itself to.
type figure struct {
	unit  string
	limit float64 // the largest acceptable value; negative: none
	about string
}

func (m measurement) gives(chosen *regexp.Regexp) bool {
	return slices.ContainsFunc(m.names, chosen.MatchString)
}

// profiled runs a measurement, with profiles if they are wanted.
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

// output is what emit writes: one JSON object a line.
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

// round keeps three digits that count: more would pretend.
func round(v float64) float64 {
	var out float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.3g", v), "%g", &out)
	return out
}

// median of a list, which it sorts; 0 of an empty one.
func median[T ~int64 | ~float64](list []T) T {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpuTime is what this process has used so far, its kernel time included.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for wrong arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load is the machine's load average of the last minute, where it can be read.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
