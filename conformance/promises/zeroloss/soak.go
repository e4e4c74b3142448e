package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/soak"
)

const (
	faultInterval = 45 * time.Second
	// A control plane's memory is measured after this time, in which its records of picks fill.
	warming   = 10 * time.Minute
	diskFault = 10 * time.Second
)

// fault is a fault of one plane. If ends is set, it ends the plane's process. Such faults spare
// plane 0 shortly before and during the second half of the soak, in which the memory of plane 0 is
// measured.
type fault struct {
	name  string
	plane int
	ends  bool
	do    func(context.Context, *plane) error
}

func (r *run) faults() []fault {
	return []fault{
		{"SIGTERM", 1, true, r.terminate},
		{"SIGSTOP", 0, false, r.freeze},
		{"DNS", 1, true, r.unresolved},
		{"disk", 0, false, r.disk},
		{"SIGKILL", 1, true, r.kill},
		{"SIGKILL", 0, true, r.kill},
		{"disk", 1, false, r.disk},
		{"SIGSTOP", 1, false, r.freeze},
		{"SIGTERM", 0, true, r.terminate},
	}
}

// disk puts a file in place of the state folder, so that every access below the folder fails, even
// as root.
func (r *run) disk(ctx context.Context, p *plane) error {
	r.note("the state folder of %s cannot be used", p.name)
	away := p.state + ".away"
	if err := os.Rename(p.state, away); err != nil {
		return err
	}
	if err := os.WriteFile(p.state, nil, 0o600); err != nil {
		return err
	}
	err := wait(ctx, diskFault)
	r.note("the state folder of %s is back", p.name)
	return errors.Join(err, os.Remove(p.state), os.Rename(away, p.state))
}

func (r *run) soak(ctx context.Context) (*soak.Samples, error) {
	began, s := time.Now(), &soak.Samples{Dir: r.Dir, Size: func() float64 { return float64(r.size.Load()) }}
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	defer stop()
	half := began.Add(r.Soak / 2)
	go func() {
		if wait(sampling, time.Until(half)) != nil {
			sampled <- nil
			return
		}
		sampled <- s.Take(sampling, r.planes[0].PID(), filepath.Join(r.planes[0].state, "api.sock"))
	}()
	faults := r.faults()
	for n := 0; ; n++ {
		if wait(ctx, min(faultInterval, time.Until(began.Add(r.Soak)))) != nil || time.Since(began) >= r.Soak {
			break
		}
		f := faults[n%len(faults)]
		if f.ends && f.plane == 0 && time.Now().Add(min(warming, r.Soak/6)).After(half) {
			continue
		}
		if err := f.do(ctx, r.planes[f.plane]); err != nil {
			return s, fmt.Errorf("%s of %s: %w", f.name, r.planes[f.plane].name, err)
		}
		r.mu.Lock()
		r.faulted[f.name]++
		r.mu.Unlock()
	}
	stop()
	return s, errors.Join(ctx.Err(), <-sampled)
}

func reportSoak(out io.Writer, res result) error {
	for _, name := range sortedKeys(res.Faults) {
		fmt.Fprintf(out, "soak: %d times %s\n", res.Faults[name], name)
	}
	fmt.Fprintf(out, "soak: %d samples of the first control plane in the second half; %s\n", res.Samples.Len(),
		res.Samples.Judged())
	growth, err := res.Samples.Growth()
	for _, g := range growth {
		figures(out, line{"soak_slope." + g.Name, g.Percent, "%/h", &g.Limit},
			line{"soak_slope." + g.Name + "_error", g.Deviation, "%/h", nil})
	}
	return err
}
