package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Request states the accelerators, cores and memory that a replica needs.
type Request struct {
	Name        string // name of the replica, unique
	Share       Share  // 0: none
	Accelerator string // a part of the device's product name; "": any device
	Memory      int64  // least memory of a device in MiB, where it is known; 0: any
	Host        Host
	// Apart is a prefix of replicas' names. A fraction prefers a device without such a replica. "":
	// it prefers the fullest device.
	Apart string
}

// Reserves reports whether a replica needs anything.
func (q Request) Reserves() bool { return q.Share != 0 || q.Host != Host{} }

// Hold lists the devices, cores and memory that a process holds until it has ended. The caller
// stores the Hold with the process.
type Hold struct {
	Name  string   `json:"name"`
	UUIDs []string `json:"uuids"`
	Share Share    `json:"share"`
	Host  Host     `json:"host,omitzero"`
}

// Result lists the devices that a replica gets, or why it gets none.
type Result struct {
	Name    string
	Share   Share
	Host    Host
	Devices []Device // sorted by index; empty without a Share, or with a Reason
	Shortage
}

// Shortage states why a replica gets nothing.
type Shortage struct {
	Reason   string   // "": the replica gets all that it requests
	Resource Resource // the resource that does not suffice
	Never    bool     // the resource would not suffice on an idle machine either
}

// Hold returns the Hold of a replica with this Result.
func (r Result) Hold() Hold {
	h := Hold{Name: r.Name, Share: r.Share, Host: r.Host}
	for _, d := range r.Devices {
		h.UUIDs = append(h.UUIDs, d.UUID)
	}
	return h
}

// Environment returns the environment variables, as KEY=value, that make a process use only the
// devices of the Result. variable is the name of the variable that selects devices; "": none.
func (r Result) Environment(variable string) []string {
	if variable == "" {
		return nil
	}
	var indexes []string
	for _, d := range r.Devices {
		indexes = append(indexes, strconv.Itoa(d.Index))
	}
	env := []string{variable + "=" + strings.Join(indexes, ",")}
	if variable == "CUDA_VISIBLE_DEVICES" {
		env = append([]string{"CUDA_DEVICE_ORDER=PCI_BUS_ID"}, env...)
	}
	return env
}

// Allocate assigns devices, cores and memory to the replicas in requests. A replica that has a Hold
// keeps its devices. The other replicas follow, the largest request first. A Hold without a request
// still occupies its devices. Results are sorted by name.
func Allocate(devices []Device, host Host, holds []Hold, requests []Request) []Result {
	requests = slices.Clone(requests)
	slices.SortFunc(requests, func(a, b Request) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Host.Memory, a.Host.Memory),
			cmp.Compare(b.Host.Cores, a.Host.Cores), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Accelerator, b.Accelerator))
	})
	m := newMachine(devices, host, holds, requests)
	results := map[string]Result{}
	for _, q := range requests {
		if kept, ok := m.kept[q.Name]; ok {
			results[q.Name] = Result{Name: q.Name, Share: q.Share, Host: q.Host, Devices: kept}
		}
	}
	for _, q := range requests {
		if _, ok := results[q.Name]; !ok {
			results[q.Name] = m.place(q)
		}
	}
	sorted := slices.Collect(maps.Values(results))
	slices.SortFunc(sorted, func(a, b Result) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}

// machine has the used and free resources during one call of Allocate.
type machine struct {
	devices []Device // without devices in MIG mode; sorted by index
	divided int      // number of devices in MIG mode
	used    map[string]Share
	users   map[string][]string // names of replicas, by the UUID of a device
	kept    map[string][]Device // by name of the replica
	gone    map[string]string   // UUID of a held device that is missing, by name of the replica
	host    Host
	taken   map[string]Host // by name of the replica
}

func newMachine(devices []Device, host Host, holds []Hold, requests []Request) *machine {
	m := &machine{host: host, taken: map[string]Host{},
		used: map[string]Share{}, users: map[string][]string{}, kept: map[string][]Device{}, gone: map[string]string{},
	}
	for _, d := range devices {
		if d.MIG {
			m.divided++
		} else {
			m.devices = append(m.devices, d)
		}
	}
	slices.SortFunc(m.devices, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
	wanted := map[string]Request{}
	for _, q := range requests {
		wanted[q.Name] = q
	}
	holds = slices.Clone(holds)
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Share, b.Share), slices.Compare(a.UUIDs, b.UUIDs),
			cmp.Compare(a.Host.Memory, b.Host.Memory), cmp.Compare(a.Host.Cores, b.Host.Cores))
	})
	for _, h := range holds {
		if _, requested := wanted[h.Name]; !requested {
			m.occupy(h)
		}
	}
	for _, h := range holds {
		if q, requested := wanted[h.Name]; requested {
			if kept, ok := m.keep(q, h); ok {
				m.kept[h.Name] = kept
				m.occupy(h)
			}
		}
	}
	return m
}

func (m *machine) keep(q Request, h Hold) ([]Device, bool) {
	if _, twice := m.kept[h.Name]; twice || h.Share != q.Share || !q.Share.valid() || len(h.UUIDs) != count(q.Share) ||
		h.Host != q.Host || m.crowded(q.Host).Reason != "" {
		return nil, false
	}
	var kept []Device
	for _, uuid := range h.UUIDs {
		i := slices.IndexFunc(m.devices, func(d Device) bool { return d.UUID == uuid })
		if i < 0 {
			m.gone[h.Name] = uuid
			return nil, false
		}
		if !q.suits(m.devices[i]) || slices.Contains(kept, m.devices[i]) {
			return nil, false
		}
		kept = append(kept, m.devices[i])
	}
	slices.SortFunc(kept, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
	return kept, true
}

func (m *machine) occupy(h Hold) {
	for _, uuid := range h.UUIDs {
		m.used[uuid] += min(h.Share, Whole)
		m.users[uuid] = append(m.users[uuid], h.Name)
	}
	m.taken[h.Name] = m.taken[h.Name].plus(h.Host)
}

func count(s Share) int { return int((s + Whole - 1) / Whole) }

func matches(d Device, accelerator string) bool {
	return strings.Contains(normal(d.Name), normal(accelerator))
}

func (q Request) suits(d Device) bool {
	return matches(d, q.Accelerator) && (d.Memory == 0 || d.Memory >= q.Memory)
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// normal returns a product name in lower case without separators, so that "NVIDIA-L40S",
// "nvidia_l40s" and "NVIDIA L40S" are equal.
func normal(s string) string { return strings.ToLower(separators.Replace(s)) }

// place assigns resources to a replica without a Hold.
func (m *machine) place(q Request) Result {
	result := Result{Name: q.Name, Share: q.Share, Host: q.Host, Shortage: m.crowded(q.Host)}
	if q.Share != 0 && !result.Never {
		found, none := m.choose(q)
		if none.Reason != "" {
			result.Shortage = none
		}
		if result.Reason == "" {
			result.Devices = found
		}
	}
	if result.Reason == "" {
		m.occupy(result.Hold())
	}
	return result
}

func (m *machine) choose(q Request) ([]Device, Shortage) {
	if !q.Share.valid() {
		return nil, Shortage{Resource: Accelerators, Never: true, Reason: fmt.Sprintf(
			"%s devices: use a whole number, or a fraction of one device", q.Share)}
	}
	groups := map[string][]Device{}
	var suitable, found []Device
	for _, d := range m.devices {
		if q.suits(d) {
			groups[kind(d)] = append(groups[kind(d)], d)
			suitable = append(suitable, d)
		}
	}
	if q.Share < Whole {
		found = m.fraction(q, suitable)
	} else {
		found = m.whole(groups, count(q.Share))
	}
	if len(found) > 0 {
		return found, Shortage{}
	}
	largest := 0
	for _, group := range groups {
		largest = max(largest, len(group))
	}
	return nil, Shortage{Resource: Accelerators, Reason: m.reason(q, suitable, largest),
		Never: largest < count(q.Share)}
}

// fraction returns a device with room for a fraction. It prefers the fullest device, so that whole
// devices stay free. If q.Apart is set, it prefers a device without a replica whose name begins
// with q.Apart, then the emptiest device.
func (m *machine) fraction(q Request, suitable []Device) (best []Device) {
	beside := func(d Device) int {
		if slices.ContainsFunc(m.users[d.UUID], func(name string) bool { return strings.HasPrefix(name, q.Apart) }) {
			return 1
		}
		return 0
	}
	better := func(a, b Device) bool {
		if q.Apart == "" {
			return m.used[a.UUID] > m.used[b.UUID]
		}
		return cmp.Or(beside(a)-beside(b), int(m.used[a.UUID]-m.used[b.UUID])) < 0
	}
	for _, d := range suitable {
		if m.used[d.UUID]+q.Share <= Whole && (best == nil || better(d, best[0])) {
			best = []Device{d}
		}
	}
	return best
}

// whole returns n free devices of the same kind. Of the kinds with enough free devices, it chooses
// the kind with the fewest.
func (m *machine) whole(groups map[string][]Device, n int) []Device {
	var best []Device
	for _, group := range groups {
		free := m.free(group)
		if len(free) >= n && (best == nil || len(free) < len(best) ||
			len(free) == len(best) && free[0].Index < best[0].Index) {
			best = free
		}
	}
	if best == nil {
		return nil
	}
	return best[:n:n]
}

func (m *machine) free(group []Device) (free []Device) {
	for _, d := range group {
		if m.used[d.UUID] == 0 {
			free = append(free, d)
		}
	}
	return free
}

const namedUsers = 5

func (m *machine) reason(q Request, suitable []Device, largest int) string {
	var b strings.Builder
	if uuid, ok := m.gone[q.Name]; ok {
		fmt.Fprintf(&b, "the device %s, which it used, is not there any more; ", uuid)
	}
	what := "devices"
	if q.Share == Whole {
		what = "device"
	}
	if q.Accelerator != "" {
		what += fmt.Sprintf(" with %q in the name", q.Accelerator)
	}
	if q.Memory > 0 {
		what += fmt.Sprintf(" of at least %d MiB", q.Memory)
	}
	fmt.Fprintf(&b, "it needs %s %s", q.Share, what)
	switch {
	case len(suitable) < count(q.Share):
		fmt.Fprintf(&b, ", and this machine has %d", len(suitable))
		if m.divided > 0 {
			fmt.Fprintf(&b, "; %d in MIG mode cannot be used", m.divided)
		}
		return b.String()
	case largest < count(q.Share):
		fmt.Fprintf(&b, " of one kind, and this machine has at most %d of one kind", largest)
		return b.String()
	case q.Share < Whole:
		b.WriteString(", and no device has so much left")
	default:
		fmt.Fprintf(&b, ", and %d of %d are free", len(m.free(suitable)), len(suitable))
	}
	separator := ": "
	for i, d := range suitable {
		if i == namedUsers {
			fmt.Fprintf(&b, ", and others")
			break
		}
		if users := m.users[d.UUID]; len(users) > 0 {
			slices.Sort(users)
			users = users[:min(len(users), namedUsers)]
			fmt.Fprintf(&b, "%s%d is used by %s", separator, d.Index, strings.Join(users, ", "))
			separator = "; "
		}
	}
	return b.String()
}
