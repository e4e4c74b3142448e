package devices_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/engine/devices"
)

func memory(name string, mib int64) devices.Request {
	return devices.Request{Name: name, Host: devices.Host{Memory: mib}}
}

func TestAllocate_NothingStartsThatTheHostHasNoRoomFor(t *testing.T) {
	host := devices.Host{Cores: 4000, Memory: 1000}
	one := devices.Numbered(1)
	has := devices.Hold{Name: "old", Host: devices.Host{Cores: 3500, Memory: 600}}
	all := devices.Request{Name: "a", Share: 1000, Host: devices.Host{Cores: 1000, Memory: 500}}
	for name, c := range map[string]struct {
		host     devices.Host
		holds    []devices.Hold
		requests []devices.Request
		want     string
	}{
		"larger ones first": {host, nil, []devices.Request{memory("a", 300), memory("b", 400), memory("c", 600)},
			"a: it needs 300 MiB of memory, and 0 of 1000 are free: b has 400; c has 600\nb: []\nc: []\n"},
		"beside a process": {host, []devices.Hold{has}, []devices.Request{memory("a", 400), memory("b", 1)},
			"a: []\nb: it needs 1 MiB of memory, and 0 of 1000 are free: a has 400; old has 600\n"},
		"cores": {host, []devices.Hold{has}, []devices.Request{{Name: "a", Host: devices.Host{Cores: 1000}}},
			"a: it needs 1 core, and 0.5 of 4 are free: old has 3.5\n"},
		"one that reserves nothing": {host, []devices.Hold{has}, []devices.Request{{Name: "a", Share: 1000}},
			"a: [0]\n"},
		"never": {host, []devices.Hold{has}, []devices.Request{
			{Name: "a", Share: 1000, Host: devices.Host{Cores: 500, Memory: 1001}}},
			"a never: it needs 1001 MiB of memory, and Penstock may use 1000\n"},
		"a device alone is not enough": {host, []devices.Hold{has}, []devices.Request{all, {Name: "b", Share: 1000}},
			"a: it needs 1 core, and 0.5 of 4 are free: old has 3.5\nb: [0]\n"},
		"no device": {host, []devices.Hold{{Name: "gpu", UUIDs: []string{"device-0"}, Share: 1000}},
			[]devices.Request{all}, "a: it needs 1 device, and 0 of 1 are free: 0 is used by gpu\n"},
		"a host that is not known": {devices.Host{}, []devices.Hold{has}, []devices.Request{memory("a", 1<<30)},
			"a: []\n"},
		"one that stays": {host, []devices.Hold{{Name: "a", Host: devices.Host{Memory: 300}}},
			[]devices.Request{memory("a", 300), memory("b", 800)},
			"a: []\nb: it needs 800 MiB of memory, and 700 of 1000 are free: a has 300\n"},
		"one that grows": {host, []devices.Hold{{Name: "a", Host: devices.Host{Memory: 300}}, has},
			[]devices.Request{memory("a", 500)},
			"a: it needs 500 MiB of memory, and 400 of 1000 are free: old has 600\n"},
		"one that grows before another one starts": {host, []devices.Hold{{Name: "a", Host: devices.Host{Memory: 300}}},
			[]devices.Request{memory("a", 500), memory("b", 600)},
			"a: it needs 500 MiB of memory, and 400 of 1000 are free: b has 600\nb: []\n"},
		"a smaller host than before": {devices.Host{Memory: 500},
			[]devices.Hold{{Name: "a", Host: devices.Host{Memory: 600}}}, []devices.Request{memory("a", 600)},
			"a never: it needs 600 MiB of memory, and Penstock may use 500\n"},
		"many": {host, nil, []devices.Request{memory("a", 1), memory("b", 1), memory("c", 1), memory("d", 1),
			memory("e", 1), memory("f", 1), memory("g", 994), memory("h", 1)}, "a: []\nb: []\nc: []\nd: []\ne: []\n" +
			"f: []\ng: []\nh: it needs 1 MiB of memory, and 0 of 1000 are free: a has 1; b has 1; c has 1; d has 1; " +
			"e has 1, and others\n"},
	} {
		if diff := cmp.Diff(c.want, show(devices.Allocate(one, c.host, c.holds, c.requests))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAllocate_SpreadSeparatesReplicasOfADeployment(t *testing.T) {
	half := func(name, apart string) devices.Request {
		return devices.Request{Name: name, Share: 300, Apart: apart}
	}
	busy := devices.Hold{Name: "other/0", UUIDs: []string{"device-1"}, Share: 100}
	for name, c := range map[string]struct {
		requests []devices.Request
		want     string
	}{
		"packed": {[]devices.Request{half("a/0", ""), half("a/1", ""), half("a/2", "")},
			"a/0: [1]\na/1: [1]\na/2: [1]\n"},
		"apart, then the emptiest": {[]devices.Request{half("a/0", "a/"), half("a/1", "a/"), half("a/2", "a/"),
			half("a/3", "a/")}, "a/0: [0]\na/1: [2]\na/2: [1]\na/3: [0]\n"},
		"another deployment is no replica": {[]devices.Request{half("a/0", "a/"), half("ab/0", "ab/"),
			half("b/0", "b/"), half("c/0", "")}, "a/0: [0]\nab/0: [2]\nb/0: [1]\nc/0: [1]\n"},
		"whole ones": {[]devices.Request{{Name: "a/0", Share: 2000, Apart: "a/"}}, "a/0: [0 2]\n"},
	} {
		got := show(devices.Allocate(devices.Numbered(3), devices.Host{}, []devices.Hold{busy}, c.requests))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestHost_HasTheLeastOfTheMachineAndItsControlGroups(t *testing.T) {
	const meminfo = "MemTotal:       16384000 kB\nMemFree:          1 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  devices.Host
	}{
		"no files":        {nil, devices.Host{Cores: 8000}},
		"without a group": {map[string]string{"proc/meminfo": meminfo}, devices.Host{Cores: 8000, Memory: 16000}},
		"version 2, a group above": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a.slice/b\n",
			"sys/fs/cgroup/a.slice/memory.max": "1073741824\n", "sys/fs/cgroup/a.slice/b/memory.max": "max\n",
			"sys/fs/cgroup/a.slice/b/cpu.max": "150000 100000\n", "sys/fs/cgroup/a.slice/cpu.max": "max 100000\n"},
			devices.Host{Cores: 1500, Memory: 1024}},
		"version 2, more than the machine": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1099511627776\n", "sys/fs/cgroup/cpu.max": "9900000 100000\n"},
			devices.Host{Cores: 8000, Memory: 16000}},
		"version 1": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "4:memory:/a\n3:cpu,cpuacct:/a\n1:name=systemd:/a\nnonsense\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":         "50000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us":        "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":           "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
			devices.Host{Cores: 500, Memory: 512}},
		"version 1, a container": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup":                           "4:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, devices.Host{Cores: 8000, Memory: 512}},
		"outside of its namespace": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../x\n"},
			devices.Host{Cores: 8000, Memory: 16000}},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := devices.ReadHost(root, 8); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := devices.ThisHost(); got.Cores <= 0 || got.Memory <= 0 {
		t.Errorf("this machine has %+v", got)
	}
}
