package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	manyImports  = 1000
	importStarts = 3
)

// importText is an import of some clusters, each with one gateway, and a route.
const importText = `---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: imp-%[1]d}
status:
  clusters: [%[2]s]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: imp-%[1]d}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /imp-%[1]d}}]
    backendRefs: [%[3]s]
`

// importsText has many imports. With hops, each has three clusters and a route to all of it: four
// of Envoy's clusters, one of them of hops. Else it has four clusters, and a route to each of them.
func importsText(hops bool) string {
	var out strings.Builder
	names := []string{"a", "b", "c", "d"}
	if hops {
		names = names[:3]
	}
	for i := range manyImports {
		var clusters, refs []string
		for n, name := range names {
			clusters = append(clusters,
				fmt.Sprintf(
					"{name: %s, routingMode: ParentMode, parents: [{name: gw, namespace: default, service: "+
						"[{addresses: [10.%d.%d.%d], ports: [{number: 80}]}]}]}", name, n+1, i/250, i%250+1))
			refs = append(refs,
				fmt.Sprintf("{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: imp-%d-%s}", i,
					name))
		}
		if hops {
			refs = []string{strings.TrimSuffix(refs[0], "-a}") + "}"}
		}
		fmt.Fprintf(&out, importText, i, strings.Join(clusters, ", "), strings.Join(refs, ", "))
	}
	return out.String()
}

// importsStart starts penstock up with an Envoy, and returns how long the Envoy takes to accept
// connections, and its resident memory in MiB.
func importsStart(ctx context.Context, c config, hops bool) (took time.Duration, memory float64, err error) {
	port, err := freePort()
	if err != nil {
		return 0, 0, err
	}
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(fmt.Sprintf(gatewayText, port)+importsText(hops)),
			0o600)
	})
	if err != nil {
		return 0, 0, err
	}
	defer remove()
	plane, err := startPlane(c, "up", files, state, "--concurrency", "1")
	if err != nil {
		return 0, 0, err
	}
	defer plane.stop()
	if err := eventually(ctx, func() error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return errors.Join(err, plane.running())
		}
		return conn.Close()
	}); err != nil {
		return 0, 0, err
	}
	envoy, err := child(plane.cmd.Process.Pid)
	if err == nil {
		took, err = ageOf(envoy)
	}
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Second) // what the start took is returned
	memory, err = residentOf(envoy)
	return took, memory, err
}

// ageOf is how long ago a process was started, to 10 ms.
func ageOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name of the program is in parentheses
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d: no start time in %q", pid, stat)
	}
	started, err := strconv.ParseFloat(fields[19], 64) // in hundredths of a second since the machine's start
	if err != nil {
		return 0, err
	}
	now, err := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	return time.Duration((now - started/100) * float64(time.Second)), err
}

// measureImports measures what the hops of many imports cost an Envoy.
func measureImports(ctx context.Context, c config, out report) error {
	took, memory := map[bool][]time.Duration{}, map[bool]float64{}
	for range importStarts {
		for _, hops := range []bool{false, true} {
			d, mib, err := importsStart(ctx, c, hops)
			if err != nil {
				return err
			}
			took[hops], memory[hops] = append(took[hops], d), mib
		}
	}
	out("mc_imports_memory", "", memory[true]/memory[false])
	out("mc_imports_memory", "hops", memory[true])
	out("mc_imports_memory", "clusters", memory[false])
	with, without := median(took[true]).Seconds(), median(took[false]).Seconds()
	out("mc_imports_live", "", with/without)
	out("mc_imports_live", "hops", with)
	out("mc_imports_live", "clusters", without)
	return nil
}
