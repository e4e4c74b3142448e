package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker/endpoint"
)

type pod struct {
	queue    float64
	kv       float64
	adapters *endpoint.Adapters
	stale    bool
	inFlight int64
}

func pods(list ...pod) (c []Candidate, states []endpoint.State) {
	for i, p := range list {
		c = append(c, Candidate{Endpoint: &endpoint.Endpoint{Text: string(rune('A' + i))}, lot: uint32(i)})
		states = append(states,
			endpoint.State{Fresh: !p.stale, Queue: p.queue, KV: p.kv, Adapters: p.adapters, InFlight: p.inFlight})
	}
	return c, states
}

func has(names ...string) *endpoint.Adapters {
	return &endpoint.Adapters{Running: names, Max: len(names)}
}

// outcome returns the pods that the tree keeps, and the step that dropped each other pod.
func outcome(r *Request, c []Candidate, states []endpoint.State) (left, dropped string) {
	var steps []string
	n := walk(r, c, states, func(c *Candidate, step string) { steps = append(steps, c.Endpoint.Text+" "+step) })
	var names []string
	for _, k := range c[:n] {
		names = append(names, k.Endpoint.Text)
	}
	slices.Sort(names)
	slices.Sort(steps)
	return strings.Join(names, ""), strings.Join(steps, ", ")
}

func TestTree_ExamplesComeOutExactly(t *testing.T) {
	free := &endpoint.Adapters{Running: []string{"other"}, Max: 2}
	for _, tt := range []struct {
		name          string
		request       Request
		pods          []pod
		left, dropped string
	}{
		// An example of each criticality.
		{"critical with an adapter", Request{Model: "x", Criticality: Critical},
			[]pod{{queue: 10, kv: 0.3, adapters: has("x")}, {queue: 5, kv: 0.7},
				{queue: 60, kv: 0.2, adapters: has("x")}},
			"A", "B lora, C low-queue"},
		{"sheddable", Request{Criticality: Sheddable},
			[]pod{{queue: 6, kv: 0.85}, {queue: 4, kv: 0.75}, {queue: 7, kv: 0.6}},
			"B", "A capacity, C capacity"},
		{"critical with long queues everywhere", Request{Model: "y", Criticality: Critical},
			[]pod{{queue: 70, kv: 0.4, adapters: has("y")}, {queue: 80, kv: 0.6, adapters: has("y")},
				{queue: 65, kv: 0.7}},
			"A", "B least-queue, C lora"},

		{"standard as sheddable", Request{},
			[]pod{{queue: 6, kv: 0.85}, {queue: 4, kv: 0.75}, {queue: 7, kv: 0.6}},
			"B", "A capacity, C capacity"},
		{"standard is never shed", Request{Criticality: Standard},
			[]pod{{queue: 6, kv: 0.85}, {queue: 9, kv: 0.75}, {queue: 7, kv: 0.9}},
			"A", "B least-queue, C least-kv-cache"},
		{"sheddable without capacity", Request{Criticality: Sheddable},
			[]pod{{queue: 6, kv: 0.1}, {queue: 0, kv: 0.81}},
			"", "A capacity, B capacity"},
		{"capacity includes its limits", Request{Criticality: Sheddable},
			[]pod{{queue: 5, kv: 0.8}}, "A", ""},
		{"a queue of 50 is not low", Request{Criticality: Critical},
			[]pod{{queue: 50}, {queue: 49, kv: 0.9}}, "B", "A low-queue"},
		// The highest queue kept is 0 + 5/3 = 1, in integers.
		{"least queue divides whole numbers", Request{Criticality: Critical},
			[]pod{{queue: 0, kv: 0.5}, {queue: 1, kv: 0.4}, {queue: 5}}, "B", "A least-kv-cache, C least-queue"},
		// The highest usage kept is 0.1 + 0.3/3 = 0.2.
		{"least KV cache divides fractions", Request{Criticality: Critical},
			[]pod{{kv: 0.1}, {kv: 0.2}, {kv: 0.4}}, "AB", "C least-kv-cache"},
		{"a free slot if no server has the adapter", Request{Model: "x", Criticality: Critical},
			[]pod{{adapters: has("other")}, {adapters: free, kv: 0.9}}, "B", "A lora"},
		{"a waiting adapter will be loaded", Request{Model: "x", Criticality: Critical},
			[]pod{{adapters: &endpoint.Adapters{Waiting: []string{"x"}, Max: 1}, kv: 0.9}, {adapters: free}}, "A",
			"B lora"},
		{"all if there is no room either", Request{Model: "x", Criticality: Critical},
			[]pod{{adapters: has("other")}, {}}, "AB", ""},
		{"a stale endpoint is the last", Request{Criticality: Critical},
			[]pod{{queue: 40}, {queue: 30}, {stale: true}}, "B", "A least-queue, C stale"},
		// Pods with stale metrics count as pod A, which has the only fresh ones.
		{"freshness decides nothing if most are stale", Request{Criticality: Critical},
			[]pod{{queue: 4, kv: 0.1}, {stale: true}, {stale: true, queue: 99}}, "ABC", ""},
		{"without fresh metrics by requests in flight, and none is shed", Request{Criticality: Sheddable},
			[]pod{{stale: true, inFlight: 90}, {stale: true, inFlight: 9}}, "B", "A least-queue"},
	} {
		c, states := pods(tt.pods...)
		left, dropped := outcome(&tt.request, c, states)
		if left != tt.left || dropped != tt.dropped {
			t.Errorf("%s: left %q, dropped %q; want %q and %q", tt.name, left, dropped, tt.left, tt.dropped)
		}
	}
}

func TestTree_OrderOfEndpointsDecidesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		var list []pod
		for range 1 + random.IntN(6) {
			p := pod{queue: float64(random.IntN(80)), kv: float64(random.IntN(11)) / 10, stale: random.IntN(5) == 0}
			if random.IntN(2) == 0 {
				p.adapters = has("x")
			}
			list = append(list, p)
		}
		r := &Request{Model: "x", Criticality: []Criticality{Critical, Standard, Sheddable}[i%3]}
		c, states := pods(list...)
		left, dropped := outcome(r, slices.Clone(c), states)
		random.Shuffle(len(c), func(i, k int) { c[i], c[k] = c[k], c[i] })
		if l, d := outcome(r, c, states); l != left || d != dropped {
			t.Fatalf("%+v: got %q %q, and in another order %q %q; want the same", list, left, dropped, l, d)
		}
	}
}

func TestTree_RetriesFollowTheTree(t *testing.T) {
	s := tree{rand.New(rand.NewPCG(1, 2)).Uint64}
	c, states := pods(pod{queue: 60, kv: 0.1}, pod{queue: 4, kv: 0.7}, pod{queue: 2, kv: 0.9}, pod{stale: true})
	var got []string
	for _, k := range s.choose(&Request{Criticality: Critical}, nil, c, states, 4) {
		got = append(got, k.Endpoint.Text)
	}
	if diff := cmp.Diff([]string{"C", "B", "A", "D"}, got); diff != "" {
		t.Error(diff)
	}
	c, states = pods(pod{queue: 6}, pod{queue: 1, kv: 0.5})
	if got := s.choose(&Request{Criticality: Sheddable}, nil, c, states, 2); len(got) != 1 ||
		got[0].Endpoint.Text != "B" {
		t.Errorf("a sheddable request: got %+v, want B, which alone has capacity", got)
	}
}

func TestTree_DrawsAmongThoseLeft(t *testing.T) {
	list := endpoints(t, server{queue: 1}, server{queue: 1}, server{queue: 1}, server{queue: 9})
	s := strategy(t, Options{Name: "tree"})
	seen := map[string]int{}
	var scratch Scratch
	for range 300 {
		seen[s.Rank(&Request{Criticality: Critical}, epoch, list, nil, 1, &scratch)[0].Endpoint.Text]++
	}
	for i := range 3 {
		if n := seen[fmt.Sprintf("10.0.0.%d:80", i)]; n < 60 {
			t.Errorf("got %v, want at least 60 for each of the first three", seen)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%v, want 3 of them", seen)
	}
	if len(s.Rank(&Request{Criticality: Sheddable}, epoch, list[3:], nil, 1, &scratch)) > 0 || !scratch.Shed ||
		scratch.Eligible != 1 {
		t.Errorf("got %+v, want shed with 1 eligible", scratch)
	}
	r := &Request{Model: "x", Criticality: Critical}
	if n := testing.AllocsPerRun(100, func() { s.Rank(r, epoch, list, nil, 3, &scratch) }); n != 0 {
		t.Errorf("%v allocations a pick, want 0", n)
	}
	verdicts := s.Describe(r, epoch, list, nil)
	if verdicts[3].Out != stepQueue || verdicts[0].Out != "" {
		t.Errorf("verdicts %+v, want the fourth out by %s, and the first in", verdicts, stepQueue)
	}
}
