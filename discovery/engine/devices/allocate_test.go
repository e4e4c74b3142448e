package devices_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/engine/devices"
)

func show(results []devices.Result) string {
	var b strings.Builder
	for _, r := range results {
		switch {
		case r.Never:
			fmt.Fprintf(&b, "%s never: %s\n", r.Name, r.Reason)
		case r.Reason != "":
			fmt.Fprintf(&b, "%s: %s\n", r.Name, r.Reason)
		default:
			fmt.Fprintf(&b, "%s: %s\n", r.Name, indexes(r.Devices))
		}
	}
	return b.String()
}

func TestAllocate_WholeDevicesAreExclusiveAndFractionsShare(t *testing.T) {
	two, mixed := listed(t, "two-l40s.csv"), listed(t, "mixed.csv")
	gone := devices.Hold{Name: "a", UUIDs: []string{"GPU-9"}, Share: 1000}
	busy := devices.Hold{Name: "old", UUIDs: []string{two[0].UUID}, Share: 500}
	for name, c := range map[string]struct {
		all      []devices.Device
		holds    []devices.Hold
		requests []devices.Request
		want     string
	}{
		"one each": {two, nil, []devices.Request{{Name: "b", Share: 1000}, {Name: "a", Share: 1000}},
			"a: [0]\nb: [1]\n"},
		"no room": {two, nil, []devices.Request{
			{Name: "a", Share: 1000}, {Name: "b", Share: 1000}, {Name: "c", Share: 1000},
		}, "a: [0]\nb: [1]\nc: it needs 1 device, and 0 of 2 are free: 0 is used by a; 1 is used by b\n"},
		"larger ones first": {two, nil, []devices.Request{{Name: "a", Share: 1000}, {Name: "b", Share: 2000}},
			"a: it needs 1 device, and 0 of 2 are free: 0 is used by b; 1 is used by b\nb: [0 1]\n"},
		"fractions fill one device": {two, nil, []devices.Request{
			{Name: "a", Share: 500}, {Name: "b", Share: 300}, {Name: "c", Share: 200}, {Name: "d", Share: 1},
		}, "a: [0]\nb: [0]\nc: [0]\nd: [1]\n"},
		"whole beside a fraction": {two, []devices.Hold{busy}, []devices.Request{
			{Name: "a", Share: 1000}, {Name: "b", Share: 600}, {Name: "c", Share: 500},
		}, "a: [1]\nb: it needs 0.6 devices, and no device has so much left: 0 is used by old; 1 is used by a\n" +
			"c: [0]\n"},
		"none requested": {two, nil, []devices.Request{{Name: "a"}}, "a: []\n"},
		"too many": {two, nil, []devices.Request{{Name: "a", Share: 4000}},
			"a never: it needs 4 devices, and this machine has 2\n"},
		"1.5": {two, nil, []devices.Request{{Name: "a", Share: 1500}},
			"a never: 1.5 devices: use a whole number, or a fraction of one device\n"},
		"negative": {two, nil, []devices.Request{{Name: "a", Share: -1000}},
			"a never: -1 devices: use a whole number, or a fraction of one device\n"},
		"one kind for one model": {mixed, nil, []devices.Request{{Name: "a", Share: 2000}}, "a: [1 2]\n"},
		"too many of one kind": {mixed, nil, []devices.Request{{Name: "a", Share: 3000}},
			"a never: it needs 3 devices of one kind, and this machine has at most 2 of one kind\n"},
		"pairs stay free": {mixed, nil, []devices.Request{{Name: "a", Share: 1000}}, "a: [0]\n"},
		"an accelerator": {mixed, nil, []devices.Request{{Name: "a", Share: 1000, Accelerator: "nvidia_l40s"}},
			"a: [1]\n"},
		"an absent accelerator": {mixed, nil, []devices.Request{{Name: "a", Share: 1000, Accelerator: "H100"}},
			"a never: it needs 1 device with \"H100\" in the name, and this machine has 0; " +
				"1 in MIG mode cannot be used\n"},
		"a device that is gone": {two, []devices.Hold{gone}, []devices.Request{
			{Name: "a", Share: 1000}, {Name: "b", Share: 2000},
		}, "a: the device GPU-9, which it used, is not there any more; it needs 1 device, and 0 of 2 are free: " +
			"0 is used by b; 1 is used by b\nb: [0 1]\n"},
		"another one for a device that is gone": {two, []devices.Hold{gone}, []devices.Request{
			{Name: "a", Share: 1000},
		}, "a: [0]\n"},
		"no devices": {nil, nil, []devices.Request{{Name: "a", Share: 500}},
			"a never: it needs 0.5 devices, and this machine has 0\n"},
	} {
		if diff := cmp.Diff(c.want, show(devices.Allocate(c.all, devices.Host{}, c.holds, c.requests))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A restart of the machine may change the indexes of devices. A replica keeps the device with the
// same UUID.
func TestAllocate_DevicesAreRememberedByUUID(t *testing.T) {
	all := listed(t, "two-l40s.csv")
	requests := []devices.Request{{Name: "a", Share: 1000}, {Name: "b", Share: 1000}}
	var holds []devices.Hold
	for _, r := range devices.Allocate(all, devices.Host{}, nil, requests) {
		holds = append(holds, r.Hold())
	}
	all[0].Index, all[1].Index = 1, 0
	if got := show(devices.Allocate(all, devices.Host{}, holds, requests)); got != "a: [1]\nb: [0]\n" {
		t.Error(got)
	}
}

func TestAllocate_EnvironmentHasIndexes(t *testing.T) {
	r := devices.Allocate(listed(t, "two-l40s.csv"), devices.Host{}, nil,
		[]devices.Request{{Name: "a", Share: 2000}, {Name: "b"}})
	for i, want := range []string{
		"[CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1]",
		"[CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=]",
	} {
		if got := fmt.Sprint(r[i].Environment("CUDA_VISIBLE_DEVICES")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := fmt.Sprint(r[0].Environment("HIP_VISIBLE_DEVICES"), r[0].Environment("")); got !=
		"[HIP_VISIBLE_DEVICES=0,1] []" {
		t.Error(got)
	}
}

// Replicas come and go in 200 random histories. No device or host may be oversubscribed, and no
// running replica may get another device.
func TestAllocate_NoHistoryOversubscribesOrMovesARunningReplica(t *testing.T) {
	random := rand.New(rand.NewSource(45))
	shares := []devices.Share{0, 1, 250, 500, 700, 1000, 1000, 2000, 3000}
	host := devices.Host{Cores: 4000, Memory: 100}
	for history := range 200 {
		all := devices.Numbered(1 + random.Intn(6))
		var holds []devices.Hold
		requests := map[string]devices.Request{}
		for range 12 {
			name := fmt.Sprintf("r%d", random.Intn(8))
			if _, ok := requests[name]; ok {
				delete(requests, name)
				holds = slices.DeleteFunc(holds, func(h devices.Hold) bool { return h.Name == name })
			} else {
				requests[name] = devices.Request{Name: name, Share: shares[random.Intn(len(shares))],
					Host:  devices.Host{Cores: shares[random.Intn(len(shares))], Memory: int64(random.Intn(60))},
					Apart: []string{"", "r"}[random.Intn(2)]}
			}
			var list []devices.Request
			for _, q := range requests {
				list = append(list, q)
			}
			results := devices.Allocate(all, host, holds, list)
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			random.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
			if again := devices.Allocate(all, host, holds, list); !reflect.DeepEqual(results, again) {
				t.Fatalf("history %d: the order changes the result: %s", history, cmp.Diff(results, again))
			}
			checkResults(t, host, holds, results)
			holds = holds[:0]
			for _, r := range results {
				if r.Reason == "" {
					holds = append(holds, r.Hold())
				}
			}
		}
	}
}

func checkResults(t *testing.T, host devices.Host, holds []devices.Hold, results []devices.Result) {
	t.Helper()
	used, reserved := map[string]devices.Share{}, devices.Host{}
	for _, r := range results {
		if r.Reason == "" {
			reserved.Cores, reserved.Memory = reserved.Cores+r.Host.Cores, reserved.Memory+r.Host.Memory
		}
		if reserved.Cores > host.Cores || reserved.Memory > host.Memory {
			t.Errorf("replicas reserve %+v of %+v: %s", reserved, host, show(results))
		}
		if want := int(r.Share+999) / 1000; len(r.Devices) != want && r.Reason == "" || r.Never && r.Reason == "" ||
			len(r.Devices) > 0 && r.Reason != "" {
			t.Errorf("%+v", r)
		}
		for _, d := range r.Devices {
			if used[d.UUID] += min(r.Share, devices.Whole); used[d.UUID] > devices.Whole {
				t.Errorf("%s is used more than once: %s", d.UUID, show(results))
			}
		}
		i := slices.IndexFunc(holds, func(h devices.Hold) bool { return h.Name == r.Name })
		if i >= 0 && (r.Reason != "" || !slices.Equal(holds[i].UUIDs, r.Hold().UUIDs)) {
			t.Errorf("%s had %v and gets %v %s", r.Name, holds[i].UUIDs, r.Hold().UUIDs, r.Reason)
		}
	}
}
