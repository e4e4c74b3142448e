package devices

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Resource is a kind of resource that replicas request. Its text is the field in spec.resources.
type Resource string

// The resources of a machine.
const (
	Accelerators Resource = "gpu"
	Cores        Resource = "cpu"
	Memory       Resource = "memory"
)

// Host has the cores and main memory that one replica reserves, or that all replicas together may
// reserve. 0 means no reservation or, for all replicas, no limit.
type Host struct {
	Cores  Share `json:"cores,omitempty"`  // processor cores
	Memory int64 `json:"memory,omitempty"` // main memory in MiB
}

func (h Host) plus(o Host) Host { return Host{Cores: h.Cores + o.Cores, Memory: h.Memory + o.Memory} }

var amounts = []struct {
	resource Resource
	unit     string
	get      func(Host) int64
	text     func(int64) string
}{
	{Cores, "cores", func(h Host) int64 { return int64(h.Cores) }, func(n int64) string { return Share(n).String() }},
	{Memory, "MiB of memory", func(h Host) int64 { return h.Memory }, func(n int64) string { return fmt.Sprint(n) }},
}

// crowded returns why the host has no room for the reservation q. Without a Reason, the host has
// room.
func (m *machine) crowded(q Host) (s Shortage) {
	for _, a := range amounts {
		need, all, used, unit := a.get(q), a.get(m.host), int64(0), a.unit
		if a.text(need) == "1" {
			unit = strings.TrimSuffix(unit, "s")
		}
		for _, h := range m.taken {
			used += a.get(h)
		}
		switch {
		case need == 0 || all == 0:
		case need > all:
			return Shortage{Resource: a.resource, Never: true, Reason: fmt.Sprintf(
				"it needs %s %s, and Penstock may use %s", a.text(need), unit, a.text(all))}
		case need > all-used && s.Reason == "":
			s.Resource, s.Reason = a.resource, fmt.Sprintf("it needs %s %s, and %s of %s are free",
				a.text(need), unit, a.text(max(0, all-used)), a.text(all))
			separator, named := ": ", 0
			for _, name := range slices.Sorted(maps.Keys(m.taken)) {
				if n := a.get(m.taken[name]); n > 0 && named < namedUsers {
					s.Reason += fmt.Sprintf("%s%s has %s", separator, name, a.text(n))
					separator, named = "; ", named+1
				} else if n > 0 {
					s.Reason += ", and others"
					break
				}
			}
		}
	}
	return s
}

// ReadHost returns the cores and main memory that this process may use on a machine with a number
// of processors. The process's control groups (version 1 or 2) may allow fewer than the machine
// has. root is the root of Linux's file system.
func ReadHost(root fs.FS, processors int) Host {
	h := Host{Cores: Share(processors) * Whole}
	raw, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			h.Memory = kib >> 10
		}
	}
	raw, _ = fs.ReadFile(root, "proc/self/cgroup") // lines of ID:CONTROLLERS:PATH, see cgroups(7)
	for line := range strings.Lines(string(raw)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") { // "" in version 2
			mount := path.Join("sys/fs/cgroup", controller)
			// In a container, the path may be relative to the machine's root group, although the
			// container's own group is mounted. So the limits of all parent paths are read.
			for group := path.Clean("/" + f[2]); ; group = path.Dir(group) {
				h.limit(root, path.Join(mount, group))
				if group == "/" {
					break
				}
			}
		}
	}
	return h
}

// limit reduces h to the limits of a control group.
func (h *Host) limit(root fs.FS, group string) {
	numbers := func(name string) (out [2]int64) { // "max" becomes 0, no limit
		raw, _ := fs.ReadFile(root, path.Join(group, name))
		for i, text := range strings.Fields(string(raw)) {
			if i < len(out) {
				out[i], _ = strconv.ParseInt(text, 10, 64)
			}
		}
		return out
	}
	for _, bytes := range []int64{numbers("memory.max")[0], numbers("memory.limit_in_bytes")[0]} {
		if mib := bytes >> 20; mib > 0 && (h.Memory == 0 || mib < h.Memory) {
			h.Memory = mib
		}
	}
	for _, time := range [][2]int64{numbers("cpu.max"),
		{numbers("cpu.cfs_quota_us")[0], numbers("cpu.cfs_period_us")[0]}} {
		if quota, period := time[0], time[1]; quota > 0 && period > 0 {
			h.Cores = min(h.Cores, Share(max(1, quota*int64(Whole)/period)))
		}
	}
}
