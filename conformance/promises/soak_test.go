//go:build lab && linux

package promises

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/soak"
)

var soaking = flag.Duration("soak", 0,
	"repeat the faults so long, and measure whether a process of Penstock grows; 0: each fault once")

// changing is the time between two faults of a soak. Changes take effect one after another in this
// time.
const changing = 30 * time.Second

// settling is how long a process grows after its start, until its ring of last picks is full.
const settling = 5 * time.Minute

// restarting is how long a container must have run for the kubelet to restart it without a
// back-off.
const restarting = 10 * time.Minute

// underFaults injects each fault under load. No request may be lost, and everything must recover
// within a minute.
func underFaults(t *testing.T) {
	s := startSite(newPlace(t))
	if *soaking > 0 {
		s.soak()
		return
	}
	for _, f := range faults {
		s.withstands(f.name, f.ends, f.test)
	}
}

// withstands runs a subtest under load, and waits until everything works again. If open is set, the
// subtest restarts all processes, so the pool fails open meanwhile.
func (s *site) withstands(name string, open bool, test func(*site)) {
	all := s.T
	all.Run(name, func(t *testing.T) {
		s.T = t
		defer func() { s.T = all }()
		if open {
			s.apply(failOpen)
			s.goesOn() // wait until FailOpen is in effect
			defer func() {
				s.apply(strings.ReplaceAll(failOpen, "FailOpen", "FailClose"))
			}()
		}
		load := s.load(s.address)
		test(s)
		s.goesOn()
		s.end(load)
		s.sent += load.sent.Load()
	})
}

const failOpen = "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: " +
	"{name: chat}, picker: {failureMode: FailOpen}}\n"

// soak repeats the faults until its time is over, with changes between them. In the second half,
// soak samples one process, and no fault ends this process.
func (s *site) soak() {
	began, counts := time.Now(), map[string]int{}
	half := began.Add(*soaking / 2)
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		s.Fatal(err)
	}
	samples, sampled := &soak.Samples{Dir: dir}, make(chan error, 1)
	sampling, stop := context.WithCancel(s.Context())
	defer stop()
	started := false
	var ended time.Time // when a fault last ended processes
	for n := 0; time.Since(began) < *soaking; n++ {
		f := faults[n%len(faults)]
		if f.ends {
			if time.Now().Add(settling).After(half) || time.Since(ended) < restarting+recovery {
				continue
			}
			ended = time.Now()
		}
		if !started && time.Now().After(half) {
			started = true
			leader := s.processes()[0]
			pid, socket := s.Process(leader, "serve"), s.own(leader, "state/api.sock")
			go func() { sampled <- samples.Take(sampling, pid, socket) }()
		}
		s.withstands(fmt.Sprintf("%d-%s", n, f.name), f.ends, f.test)
		counts[f.name]++
		s.withstands(fmt.Sprintf("%d-changes", n), false, func(s *site) {
			for until := time.Now().Add(changing); time.Now().Before(until); {
				s.goesOn()
			}
		})
	}
	stop()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("soak on Kubernetes: %d times %s\n", counts[name], name)
	}
	fmt.Printf("soak on Kubernetes: %d changes, %d requests, all answered: %t\n", s.changes, s.sent, !s.Failed())
	if !started {
		s.Error("the soak is too short to sample a process")
		return
	}
	if err := <-sampled; err != nil {
		s.Error(err)
	}
	s.report(samples)
}

func (s *site) report(samples *soak.Samples) {
	s.Helper()
	growth, err := samples.Growth()
	fmt.Println("soak on Kubernetes:", samples.Judged())
	for _, g := range growth {
		line, _ := json.Marshal(map[string]any{"name": "soak_slope.kube_" + g.Name, "value": g.Percent,
			"error": g.Deviation, "unit": "%/h", "limit": g.Limit})
		fmt.Println(string(line))
	}
	if err != nil {
		s.Errorf("%v; samples and heap profiles: %s", err, samples.Dir)
	} else if err := os.RemoveAll(samples.Dir); err != nil {
		s.Error(err)
	}
}
