package simulation

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// scripted is a Selector that sends each request to the first cluster of order that has not
// declined it, and records facts.
type scripted struct {
	order   func(number int) []int
	learned *[]string
	gateway int
}

func (s scripted) Choose(now time.Duration, number int, _ *Request, declined []bool) int {
	for _, c := range s.order(number) {
		if declined == nil || !declined[c] {
			return c
		}
	}
	return 0
}

func (s scripted) Learn(now time.Duration, number int, k Kind) {
	*s.learned = append(*s.learned,
		fmt.Sprintf("%d: %d %s", s.gateway, number,
			map[Kind]string{FirstByte: "first byte", Ended: "ended", Declined: "declined"}[k]))
}

func (s scripted) Report(now time.Duration, r Report) {
	*s.learned = append(*s.learned,
		fmt.Sprintf("%d: report of %d at %s counts %d, %d blocks, %d servers", s.gateway, r.Cluster, now, r.Counted,
			len(r.Blocks), r.Servers))
}

type plain struct{ blocks []uint64 }

func (p *plain) Add(chain []uint64) { p.blocks = append(p.blocks, chain...) }

func (p *plain) Take(out []uint64) ([]uint64, int) {
	out = append(out, p.blocks...)
	p.blocks = p.blocks[:0]
	return out, 0
}

// two are clusters with two servers each, 50 ms apart.
func two(t *testing.T, w *Workload, order func(number int) []int) (s ClusterSet, learned *[]string) {
	learned = new([]string)
	apart := 50 * time.Millisecond
	return ClusterSet{Workload: w, Enter: make([]int, len(w.Requests)), Members: []Member{{Servers: 2}, {Servers: 2}},
		Delays: [][]time.Duration{{0, apart}, {apart, 0}},
		Picker: named(t, "load"), News: func(int, *ClusterSet) News { return new(plain) },
		Gateway: func(c int, _ *ClusterSet, _ *rand.Rand) Selector { return scripted{order, learned, c} }}, learned
}

func TestClusterSet_RequestOfAnotherClusterTakesTheNetworkTwice(t *testing.T) {
	w := workload(request{contents: []uint64{1, 2}, input: 1024, output: 4})
	seen := func(cluster int) Routed {
		s, _ := two(t, w, func(int) []int { return []int{cluster} })
		return RunClusters(s)[0]
	}
	here, there := seen(0), seen(1)
	if here.Cluster != 0 || there.Cluster != 1 || here.Seen != here.FirstByte ||
		there.Seen-here.Seen != 100*time.Millisecond {
		t.Errorf("here %+v, there %+v", here, there)
	}
}

func TestClusterSet_GatewayLearnsWhatTheNetworkBrings(t *testing.T) {
	// The first byte comes after 6.25 s of prefill.
	w := workload(request{contents: make([]uint64, 98), input: 50_000, output: 200})
	s, learned := two(t, w, func(int) []int { return []int{1} })
	s.Members[0].Every, s.Members[1].Every = -1, 4*time.Second
	RunClusters(s)
	want := []string{
		"0: report of 1 at 51ms counts 0, 0 blocks, 2 servers",
		"0: report of 1 at 4.051s counts 1, 97 blocks, 2 servers",
		"0: report of 1 at 8.051s counts 1, 0 blocks, 2 servers", "0: 0 first byte", "0: 0 ended",
	}
	var got []string
	for _, l := range *learned {
		if l[0] == '0' {
			got = append(got, l)
		}
	}
	if !containsInOrder(got, want) {
		t.Errorf("%q", got)
	}
	if i := slices.IndexFunc(*learned, func(l string) bool {
		return l == "1: report of 1 at 4.001s counts 0, 97 blocks, 2 servers"
	}); i < 0 {
		t.Errorf("%q", *learned)
	}
}

func containsInOrder(all, part []string) bool {
	for _, p := range part {
		i := slices.Index(all, p)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}

func TestClusterSet_DeadClusterLosesWhatItHasAndDeclinesTheRest(t *testing.T) {
	w := workload(request{contents: []uint64{1, 2, 3}, input: 1200, output: 4000},
		request{at: 2 * time.Second, contents: []uint64{4}, input: 100, output: 4})
	s, learned := two(t, w, func(int) []int { return []int{1, 0} })
	s.Dies, s.DiesAt = 1, time.Second
	out := RunClusters(s)
	if !out[0].Lost || out[0].Cluster != 1 {
		t.Errorf("the first is %+v", out[0])
	}
	if o := out[1]; o.Lost || o.Cluster != 0 || o.Declined != 1 ||
		o.Scheduled != 2100*time.Millisecond+400*time.Microsecond {
		t.Errorf("the second is %+v", o)
	}
	if !containsInOrder(*learned, []string{"0: 0 ended", "0: 1 declined", "0: 1 ended"}) {
		t.Errorf("%q", *learned)
	}
	for _, l := range *learned {
		if l > "0: report of 1 at 1.0511s" && l < "0: report of 1 at 2" && len(l) > 30 {
			t.Errorf("a dead cluster reports: %s", l)
		}
	}
}

func TestClusterSet_ReferenceStaysNearAndLeavesTheDead(t *testing.T) {
	w := generated(t, "chat", 400).Draw(10, 1)
	s, _ := two(t, w, nil)
	s.Gateway = nil
	near := 0
	for _, o := range RunClusters(s) {
		if o.Cluster == 0 {
			near++
		}
	}
	if near < len(w.Requests)/2 {
		t.Errorf("%d of %d requests stay", near, len(w.Requests))
	}
	s.Dies, s.DiesAt = 0, 5*time.Second
	for i, o := range RunClusters(s) {
		if at := w.Requests[i].At; at > s.DiesAt && (o.Cluster != 1 || o.Lost || o.Declined > 0) {
			t.Fatalf("at %s: %+v", at, o)
		}
	}
}

func TestClusterSet_EqualScenariosHaveEqualOutcomes(t *testing.T) {
	w := generated(t, "agents", 400).Draw(20, 1)
	play := func(gateways bool) []Routed {
		s, _ := two(t, w, func(n int) []int { return []int{n % 2, (n + 1) % 2} })
		if s.Enter = EnterByShare(w, []float64{6, 2}, true, 3); !gateways {
			s.Gateway = nil
		}
		return RunClusters(s)
	}
	for _, gateways := range []bool{true, false} {
		out := play(gateways)
		if !reflect.DeepEqual(out, play(gateways)) {
			t.Error("the outcomes differ")
		}
		for i, o := range out {
			if o.Seen < w.Requests[i].At || o.End < o.FirstByte || o.Lost {
				t.Fatalf("request %d: %+v", i, o)
			}
		}
	}
}

func TestClusterSet_RequestsEnterByShareAndSessionsStay(t *testing.T) {
	w := generated(t, "agents", 3000).Draw(20, 1)
	counts, chosen := make([]int, 3), map[uint64]int{}
	enter := EnterByShare(w, []float64{6, 2, 1}, true, 1)
	for i, c := range enter {
		counts[c]++
		key := w.Requests[i].Key
		if before, ok := chosen[key]; ok && before != c {
			t.Fatalf("session %d enters clusters %d and %d", key, before, c)
		}
		chosen[key] = c
	}
	n := float64(len(enter))
	if float64(counts[0]) < .55*n || float64(counts[0]) > .78*n || float64(counts[2]) > .2*n || counts[2] == 0 {
		t.Error(counts)
	}
}
