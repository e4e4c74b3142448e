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
	"sync"
	"syscall"
	"time"
)

type measurement struct {
	what    string
	needs   func(config) bool
	run     func(context.Context, config, report) error
	figures []figure
}

// figure declares a figure. "NAME.PART" is a part of the figure NAME.
type figure struct {
	name, unit string
	limit      float64 // largest acceptable value; negative means none
	about      string
}

const none = -1

type report func(name, part string, value float64)

func (m measurement) gives(chosen *regexp.Regexp) bool {
	return slices.ContainsFunc(m.figures, func(f figure) bool { return chosen.MatchString(f.name) })
}

func (m measurement) profiled(ctx context.Context, c config) error {
	if c.profiles == "" {
		return m.run(ctx, c, emit)
	}
	name := filepath.Join(c.profiles, m.figures[0].name)
	cpu, err := os.Create(name + ".cpu.prof")
	if err != nil {
		return err
	}
	defer func() { _ = cpu.Close() }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	err = m.run(ctx, c, emit)
	pprof.StopCPUProfile()
	heap, herr := os.Create(name + ".heap.prof")
	if herr != nil {
		return herr
	}
	defer func() { _ = heap.Close() }()
	if herr := pprof.Lookup("allocs").WriteTo(heap, 0); herr != nil {
		return herr
	}
	return err
}

type output struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Limit *float64 `json:"limit"`
	About string   `json:"about,omitempty"`
}

func declared(name string) (figure, bool) {
	for _, m := range measurements {
		for _, f := range m.figures {
			if f.name == name {
				return f, true
			}
		}
	}
	return figure{}, false
}

var emitting sync.Mutex

func emit(name, part string, value float64) {
	if part != "" {
		name += "." + part
	}
	f, ok := declared(name)
	if !ok {
		panic("figure without a declaration: " + name)
	}
	o := output{Name: name, Value: round(value), Unit: f.unit, About: f.about}
	if f.limit >= 0 {
		o.Limit = &f.limit
	}
	emitting.Lock()
	defer emitting.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// round keeps three significant digits: others are not reproducible.
func round(v float64) float64 {
	var out float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.3g", v), "%g", &out)
	return out
}

func percentile[T ~int64 | ~float64](list []T, percent int) T {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*percent/100]
}

func median[T ~int64 | ~float64](list []T) T { return percentile(list, 50) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for invalid arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
