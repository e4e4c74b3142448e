package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/retry"
	"github.com/penstock-project/penstock/conformance/promises/process"
)

// limits bound a process; 0 means no limit.
type limits struct {
	Memory int64 // bytes
	Cores  float64
	Files  int
}

// chartMemory returns a chart's default memory limit in bytes. path leads to the resources in the
// chart's values.
func chartMemory(chart string, path ...string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("../../../manifests/charts", chart, "values.yaml"))
	if err != nil {
		return 0, err
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return 0, err
	}
	for _, name := range append(path, "limits", "memory") {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	q, err := resource.ParseQuantity(fmt.Sprint(value))
	if err != nil {
		return 0, fmt.Errorf("memory limit of chart %s: %w", chart, err)
	}
	return q.Value(), nil
}

type hierarchy struct {
	name, memory, cpu        string // cgroup controllers' folders; "" if the machine lacks the controller
	limit, swap, peak, kills string // names of files of the memory controller
	quota                    func(dir string, cores float64) error
}

const (
	cgroups = "/sys/fs/cgroup"
	period  = 100_000
)

var (
	version2 = hierarchy{
		name: "cgroup v2", memory: cgroups, cpu: cgroups,
		limit: "memory.max", swap: "memory.swap.max", peak: "memory.peak", kills: "memory.events",
		quota: func(dir string, cores float64) error {
			return setLimit(dir, "cpu.max", fmt.Sprintf("%d %d", int(cores*period), period))
		},
	}
	version1 = hierarchy{
		name: "cgroup v1", memory: cgroups + "/memory", cpu: cgroups + "/cpu",
		limit: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes",
		peak: "memory.max_usage_in_bytes", kills: "memory.oom_control",
		quota: func(dir string, cores float64) error {
			return errors.Join(setLimit(dir, "cpu.cfs_period_us", strconv.Itoa(period)),
				setLimit(dir, "cpu.cfs_quota_us", strconv.Itoa(int(cores*period))))
		},
	}
)

func setLimit(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600)
}

// confinement runs a process within limits. It uses a cgroup if this process may create one.
type confinement struct {
	limits limits
	under  *hierarchy // nil without a cgroup
	dirs   []string
}

func confine(name string, l limits) *confinement {
	for _, h := range []*hierarchy{&version2, &version1} {
		c := &confinement{limits: l, under: h}
		if c.prepare(fmt.Sprintf("penstock-%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())) == nil {
			return c
		}
		c.release()
	}
	return &confinement{limits: l}
}

func (c *confinement) prepare(name string) error {
	make := func(parent string) (string, error) {
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
			return "", err
		}
		_ = setLimit(parent, "cgroup.subtree_control", "+memory +cpu") // cgroup v2 only; failures show below
		dir := filepath.Join(parent, name)
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, os.ErrExist) { // cgroup v2 has one folder for both controllers
			return dir, nil
		}
		if err == nil {
			c.dirs = append(c.dirs, dir)
		}
		return dir, err
	}
	if c.limits.Memory > 0 {
		dir, err := make(c.under.memory)
		if err == nil {
			err = setLimit(dir, c.under.limit, strconv.FormatInt(c.limits.Memory, 10))
		}
		if err != nil {
			return err
		}
		_ = setLimit(dir, c.under.swap, "0") // cgroup v2
		// cgroup v1 limits the sum of memory and swap. A kernel without swap lacks this file.
		_ = setLimit(dir, c.under.swap, strconv.FormatInt(c.limits.Memory, 10))
	}
	if c.limits.Cores > 0 {
		dir, err := make(c.under.cpu)
		if err == nil {
			err = c.under.quota(dir, c.limits.Cores)
		}
		return err
	}
	return nil
}

func (c *confinement) memory() int64 { return c.limits.Memory }

func (c *confinement) how() string {
	if c.under == nil {
		return "no cgroup with write access: VmHWM, and turns of SIGSTOP for the CPU"
	}
	return c.under.name
}

// command returns a command that runs a program within the limits: a shell that moves itself into
// the cgroup and then becomes the program.
func (c *confinement) command(binary string, args ...string) (string, []string) {
	var script strings.Builder
	for _, dir := range c.dirs {
		fmt.Fprintf(&script, "echo $$ > '%s' && ", filepath.Join(dir, "cgroup.procs"))
	}
	if c.limits.Files > 0 {
		fmt.Fprintf(&script, "ulimit -n %d && ", c.limits.Files)
	}
	return "/bin/sh", append([]string{"-c", script.String() + `exec "$0" "$@"`, binary}, args...)
}

// throttle limits the CPU of a process without a cgroup until ctx ends. It stops the process for a
// part of each 40 ms. The process must be single-threaded.
func (c *confinement) throttle(ctx context.Context, p *process.Process) {
	if c.under != nil || c.limits.Cores <= 0 {
		return
	}
	turn := 40 * time.Millisecond
	run := time.Duration(float64(turn) * c.limits.Cores)
	for p.Running() == nil {
		for _, part := range []struct {
			signal syscall.Signal
			rest   time.Duration
		}{{syscall.SIGCONT, run}, {syscall.SIGSTOP, turn - run}} {
			p.Signal(part.signal)
			select {
			case <-ctx.Done():
				p.Signal(syscall.SIGCONT)
				return
			case <-time.After(part.rest):
			}
		}
	}
}

// check returns the peak of a process's resident memory in bytes, and an error if the peak exceeded
// the limit. For an ended process, the peak is the cgroup's, which includes pages of files.
func (c *confinement) check(p *process.Process) (peak int64, err error) {
	peak, gone := process.Resident(p.PID(), "VmHWM")
	killed := 0
	if c.under != nil && c.limits.Memory > 0 {
		if gone != nil {
			text, _ := os.ReadFile(filepath.Join(c.dirs[0], c.under.peak)) // with v2, missing before Linux 5.19
			peak, _ = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		}
		text, err := os.ReadFile(filepath.Join(c.dirs[0], c.under.kills))
		if err != nil {
			return peak, err
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				_, _ = fmt.Sscan(n, &killed)
			}
		}
	}
	switch {
	case killed > 0:
		err = fmt.Errorf("the kernel killed %s at its limit of %d MiB: its peak was %d MiB",
			p.Name, c.limits.Memory>>20, peak>>20)
	case c.limits.Memory > 0 && gone == nil && peak > c.limits.Memory:
		err = fmt.Errorf("%s took %d MiB, more than its limit of %d MiB", p.Name, peak>>20, c.limits.Memory>>20)
	}
	return peak, err
}

func (c *confinement) release() {
	for _, dir := range c.dirs {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = retry.Until(ctx, 10*time.Millisecond, func(context.Context) error { return os.Remove(dir) })
		cancel()
	}
	c.dirs = nil
}
