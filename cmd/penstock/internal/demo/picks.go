package demo

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker"
)

// waitRecordable waits until the next pick will be recorded: a picker records at most one pick of a
// pool in 20 ms.
func (d *show) waitRecordable() {
	select {
	case <-time.After(25 * time.Millisecond):
	case <-d.ctx.Done():
	}
}

// picks returns the picks of a pool that a cluster's picker has recorded, newest first.
func (d *show) picks(cluster, pool string) []picker.Record {
	var out struct{ Picks []picker.Record }
	check(d.cfg.Ask(d.ctx, d.state(cluster), "/debug/picks?pool="+url.QueryEscape(pool), &out))
	return out.Picks
}

// recorded returns the last pick of a pool that a cluster's picker has recorded. A pick before
// since fails.
func (d *show) recorded(cluster, pool string, since time.Time) picker.Record {
	picks := d.picks(cluster, pool)
	expect(len(picks) > 0 && !picks[0].Time.Before(since),
		"the picker of cluster %s to have picked from %s, but it has no record of that", cluster, pool)
	return picks[0]
}

// comparison describes the load of each endpoint when a pick chose, before the request itself
// counts.
func comparison(pick picker.Record) string {
	var loads []string
	different := map[float64]bool{}
	for _, v := range pick.Verdicts {
		load := v.State.Queue + v.State.Running + float64(v.State.InFlight)
		different[load] = true
		loads = append(loads, fmt.Sprintf("%s %.0f", podName(v.Pod), load))
	}
	if len(different) <= 1 {
		return fmt.Sprintf("found %d servers with equal load, and chose one at random.", len(loads))
	}
	return fmt.Sprintf("compared their load (%s).", strings.Join(loads, ", "))
}

// podName removes the address that penstock adds to the names of ModelServers.
func podName(pod string) string {
	name, _, _ := strings.Cut(pod, "/")
	return name
}

func first(endpoints string) string {
	head, _, _ := strings.Cut(endpoints, ",")
	return head
}
