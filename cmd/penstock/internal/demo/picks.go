package demo

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker"
)

// recordEvery is slightly more than the interval in which a picker records at most one pick of a
// pool.
const recordEvery = 25 * time.Millisecond

// waitRecordable waits until the next pick will be recorded, even if the last one was just now.
func waitRecordable(ctx context.Context) error {
	select {
	case <-time.After(recordEvery):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// picks returns a cluster's recorded picks of a pool, newest first.
func (s *stage) picks(ctx context.Context, c *cluster, pool string) ([]picker.Record, error) {
	var out struct{ Picks []picker.Record }
	err := s.cfg.Ask(ctx, c.state, "/debug/picks?pool="+url.QueryEscape(pool), &out)
	return out.Picks, err
}

// recorded returns a cluster's last recorded pick of a pool. A pick before since is an error.
func (s *stage) recorded(ctx context.Context, c *cluster, pool string, since time.Time) (picker.Record, error) {
	picks, err := s.picks(ctx, c, pool)
	if err != nil {
		return picker.Record{}, fmt.Errorf("picks of %s in cluster %s: %w", pool, c.name, err)
	}
	if len(picks) == 0 || picks[0].Time.Before(since) {
		return picker.Record{},
			fmt.Errorf("expected the picker of cluster %s to have picked from %s, but it has no record of that", c.name,
				pool)
	}
	return picks[0], nil
}

// comparison describes the load of each endpoint when a pick chose, before the request itself
// counts.
func comparison(pick picker.Record) string {
	var loads []string
	equal := true
	var some float64
	for i, v := range pick.Verdicts {
		load := v.State.Queue + v.State.Running + float64(v.State.InFlight)
		if i == 0 {
			some = load
		}
		equal = equal && load == some
		loads = append(loads, fmt.Sprintf("%s %.0f", podName(v.Pod), load))
	}
	if equal {
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
