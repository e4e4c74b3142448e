package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker/simulation"
)

// The figures sel_* compare gateways that choose among clusters (package selection, which names a
// cluster whose own picker then chooses a server by strategy load) with one picker that has exact
// knowledge of all servers, on the same drawings, in virtual time. TTFT is that at the gateway,
// with the network.

const (
	selectionDrawings = 3
	// selectionRequests is how many requests a drawing has; those of the first fifth of its time
	// warm the caches.
	selectionRequests = 12_000
	// deaths is how many drawings sel_dead has: ten seconds have few requests.
	deaths = 6
)

// shape is the clusters of a simulated set.
type shape struct {
	clusters, servers int  // servers of each cluster
	slow              bool // the last cluster's servers read prompts half as fast
}

// parseShape reads CLUSTERSxSERVERS, with "-slow" behind it if the last cluster is half as fast.
func parseShape(text string) (s shape, err error) {
	if rest, ok := strings.CutSuffix(text, "-slow"); ok {
		text, s.slow = rest, true
	}
	if n, err := fmt.Sscanf(text, "%dx%d", &s.clusters, &s.servers); n != 2 || err != nil ||
		text != fmt.Sprintf("%dx%d", s.clusters, s.servers) ||
		s.clusters < 1 || s.clusters > selection.MaxMembers || s.servers < 1 || s.servers > 64 {
		return s,
			fmt.Errorf(
				"-shape %q: write CLUSTERSxSERVERS, such as 3x8, or 3x8-slow with a last cluster that is half as fast",
				text)
	}
	return s, nil
}

// region of a cluster: of three, the first two are in one; more are in three regions.
func (s shape) region(c int) int {
	if s.clusters <= 3 {
		return c / 2
	}
	return c * 3 / s.clusters
}

// set returns the scenario of a workload. Clusters of one region are 20 ms apart, others 80 ms, one
// way; requests enter them 6:2:1.
func (s shape) set(w *simulation.Workload, source string, drawing int) simulation.ClusterSet {
	set := simulation.ClusterSet{Workload: w, Picker: strategy(ours), News: news, Seed: uint64(drawing),
		Gateway: newGateway(selection.DefaultMargin)}
	var shares []float64
	for a := range s.clusters {
		set.Members = append(set.Members, simulation.Member{Servers: s.servers})
		shares = append(shares, []float64{6, 2, 1}[a%3])
		delays := make([]time.Duration, s.clusters)
		for b := range delays {
			switch {
			case a == b:
			case s.region(a) == s.region(b):
				delays[b] = 20 * time.Millisecond
			default:
				delays[b] = 80 * time.Millisecond
			}
		}
		set.Delays = append(set.Delays, delays)
	}
	if s.slow {
		set.Members[s.clusters-1].Server.PrefillRate = 4000
	}
	// The key of a request is its session's, in these workloads.
	sessions := source == "chat" || source == "agents"
	set.Enter = simulation.EnterByShare(w, shares, sessions, uint64(drawing))
	return set
}

// capacity is 100 % load of a source, in requests a second.
func (s shape) capacity(source string) float64 {
	pools := float64(s.clusters)
	if s.slow {
		pools -= 0.5
	}
	return fullLoad[source] * pools * float64(s.servers) / 8
}

// selectionSources returns the workloads of the figures sim_*.
func selectionSources() ([]simulation.Source, error) {
	trace, err := readTrace()
	if err != nil {
		return nil, err
	}
	return append(simulation.Generated(selectionRequests),
		trace.Source("conversation", "A public trace of a chat service.", requestsTrace, false),
		trace.Source("conversation-spread", "The same, with the requests of each timestamp spread until the next one.",
			requestsTrace, true)), nil
}

// routed are the results of drawings of one scenario.
type routed struct {
	p90   float64 // TTFT in seconds, mean of the drawings
	leave float64 // share of requests that another cluster serves than the one that they entered
	share float64 // the largest share of a second's requests that one cluster gets, mean of the seconds
}

func (r *routed) add(w *simulation.Workload, enter []int, out []simulation.Routed, drawings int) {
	var ttft []float64
	left, perSecond := 0, map[int]map[int]int{}
	for i, o := range out {
		q := &w.Requests[i]
		if q.At < w.Warm() {
			continue
		}
		ttft = append(ttft, (o.Seen - q.At).Seconds())
		if o.Cluster != enter[i] {
			left++
		}
		second := int(q.At / time.Second)
		if perSecond[second] == nil {
			perSecond[second] = map[int]int{}
		}
		perSecond[second][o.Cluster]++
	}
	slices.Sort(ttft)
	share := 0.0
	for second := range int(w.Requests[len(w.Requests)-1].At/time.Second) + 1 {
		most, sum := 0, 0
		for _, n := range perSecond[second] {
			most, sum = max(most, n), sum+n
		}
		if sum > 0 {
			share += float64(most) / float64(sum) / float64(len(perSecond))
		}
	}
	n := float64(drawings)
	r.p90 += ttft[len(ttft)*9/10] / n
	r.leave += float64(left) / float64(len(ttft)) / n
	r.share += share / n
}

// compared plays drawings of a source as they are changed, and with the reference.
func (s shape) compared(source simulation.Source, load float64, change func(*simulation.ClusterSet)) (ours,
	reference routed) {
	outs := make([][]simulation.Routed, 2*selectionDrawings)
	sets := make([]simulation.ClusterSet, 2*selectionDrawings)
	simulation.Each(len(outs), func(i int) {
		drawing := i/2 + 1
		sets[i] = s.set(source.Draw(load*s.capacity(source.Name), drawing), source.Name, drawing)
		if change != nil {
			change(&sets[i])
		}
		if i%2 == 1 {
			sets[i].Gateway = nil
		}
		outs[i] = simulation.RunClusters(sets[i])
	})
	for i := range outs {
		to := &ours
		if i%2 == 1 {
			to = &reference
		}
		to.add(sets[i].Workload, sets[i].Enter, outs[i], selectionDrawings)
	}
	return ours, reference
}

// measureSelection compares at 50, 70 and 90 % load.
func measureSelection(ctx context.Context, c config, out report) error {
	s, err := parseShape(c.shape)
	if err != nil {
		return err
	}
	all, err := selectionSources()
	if err != nil {
		return err
	}
	worst, logs, leave := 0.0, map[int]float64{}, 0.0
	for _, load := range loads {
		for _, source := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			ours, ref := s.compared(source, float64(load)/100, nil)
			ratio := ours.p90 / ref.p90
			fmt.Fprintf(os.Stderr,
				"%s, %d %%: TTFT p90 %.3g s, reference %.3g s: %.3f; outside of their cluster %.3f, reference %.3f\n",
				source.Name, load, ours.p90, ref.p90, ratio, ours.leave, ref.leave)
			logs[load] += math.Log(ratio) / float64(len(all))
			if load < 90 {
				worst = max(worst, ratio)
			}
			if load == 70 {
				leave += math.Log(ours.leave/ref.leave) / float64(len(all))
			}
		}
	}
	out("sel_p90", "", math.Exp(logs[70]))
	out("sel_p90", "at_50", math.Exp(logs[50]))
	out("sel_p90", "at_90", math.Exp(logs[90]))
	out("sel_p90", "worst", worst)
	out("sel_leave", "", math.Exp(leave))
	return nil
}

// measureStale has the second cluster report every 5 s.
func measureStale(ctx context.Context, c config, out report) error {
	s, err := parseShape(c.shape)
	if err != nil {
		return err
	}
	all, err := selectionSources()
	if err != nil {
		return err
	}
	logs, share := 0.0, 0.0
	for _, source := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ours, ref := s.compared(source, 0.7, func(set *simulation.ClusterSet) {
			set.Members[min(1, s.clusters-1)].Every = 5 * time.Second
		})
		fmt.Fprintf(os.Stderr,
			"%s: TTFT p90 %.3g s, reference %.3g s: %.3f; largest share of a second %.3f, reference %.3f\n",
			source.Name, ours.p90, ref.p90, ours.p90/ref.p90, ours.share, ref.share)
		logs += math.Log(ours.p90/ref.p90) / float64(len(all))
		share += (ours.share - ref.share) / float64(len(all))
	}
	out("sel_stale", "", math.Exp(logs))
	out("sel_stale", "share", share)
	return nil
}

// measureDead has each cluster die in turn, and compares the ten seconds from then on. Requests of
// all drawings count together; those in flight at the cluster that dies are lost, with the
// reference, too.
func measureDead(ctx context.Context, c config, out report) error {
	s, err := parseShape(c.shape)
	if err != nil {
		return err
	}
	all, err := selectionSources()
	if err != nil {
		return err
	}
	logs := 0.0
	for _, source := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var times [2][deaths][]time.Duration
		simulation.Each(2*deaths, func(i int) {
			drawing := i/2 + 1
			set := s.set(source.Draw(0.5*s.capacity(source.Name), drawing), source.Name, drawing)
			set.Dies, set.DiesAt = drawing%s.clusters, 3*set.Workload.Warm()
			if i%2 == 1 {
				set.Gateway = nil
			}
			for k, o := range simulation.RunClusters(set) {
				if q := &set.Workload.Requests[k]; q.At >= set.DiesAt && q.At < set.DiesAt+10*time.Second && !o.Lost {
					times[i%2][i/2] = append(times[i%2][i/2], o.Seen-q.At)
				}
			}
		})
		ratio := p90(slices.Concat(times[0][:]...)).Seconds() / p90(slices.Concat(times[1][:]...)).Seconds()
		fmt.Fprintf(os.Stderr, "%s: after a death %.3f\n", source.Name, ratio)
		logs += math.Log(ratio) / float64(len(all))
	}
	out("sel_dead", "", math.Exp(logs))
	return nil
}
