package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker"
)

// Requests of the spill step, and the limit in config/here/spill.yaml.
const (
	spillRequests = 10
	spillTokens   = 100 // of each answer: long enough that all are in flight together
	perServer     = 2   // full.inFlight
)

type spilled struct {
	by, at string
	pick   picker.Record
}

// spill fills the pool here with long answers, and checks that further requests go to cluster east.
// After all have ended, it checks that the pool takes requests again.
func spill(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	base := s.here.url + prefix
	target := base + completions
	if err := s.waitIdle(ctx, target, "default/llama"); err != nil {
		return "", err
	}
	q := question("llama", "Count sheep")
	q.MaxTokens, q.IgnoreEOS, q.Stream = spillTokens, true, true
	p.text(fmt.Sprintf("%d times, without waiting for the end:", spillRequests))
	p.curl(prefix, q)
	var all []spilled
	var open []*stream
	for range spillRequests {
		if err := waitRecordable(ctx); err != nil {
			return "", err
		}
		began := time.Now()
		answer, err := s.open(ctx, base, q)
		if err != nil {
			return "", err
		}
		defer answer.close()
		pick, err := s.recorded(ctx, s.here, "default/llama", began)
		if err != nil {
			return "", err
		}
		open = append(open, answer)
		all = append(all, spilled{answer.By, answer.At, pick})
		p.line("     %2d  %s  %s", len(all), p.column(answer.By), p.paint(faint, all[len(all)-1].reason()))
	}
	p.text("Where would the next one go?")
	if err := s.explain(ctx, p, prefix); err != nil {
		return "", err
	}
	for i, answer := range open {
		if n, err := answer.rest(); err != nil || n != spillTokens {
			return "", fmt.Errorf("expected %d words of answer %d, got %d (%v)", spillTokens, i+1, n, err)
		}
	}
	if err := overflowed(all); err != nil {
		return "", err
	}
	if err := s.waitIdle(ctx, target, "default/llama"); err != nil {
		return "", err
	}
	p.text("All have ended. One more:")
	a, err := s.ask(ctx, base, question("llama", "Is there room again?"))
	if err != nil {
		return "", err
	}
	p.answer(a)
	if err := a.expectFrom("llama-"); err != nil {
		return "", err
	}
	room := perServer * len(names("llama"))
	return fmt.Sprintf(
		"%d ran here, %d were spilled to cluster east within the same request, and no client got an error", room,
		spillRequests-room), nil
}

// reason describes the picker's decision from its record.
func (r spilled) reason() string {
	var loads []string
	for _, v := range r.pick.Verdicts {
		text := fmt.Sprintf("%s %d/%d", podName(v.Pod), v.State.InFlight, perServer)
		loads = append(loads, text)
	}
	state := strings.Join(loads, ", ")
	if r.pick.Result == "spilled" {
		return "both full (" + state + "): to the import"
	}
	return "picked; now " + state
}

// overflowed returns an error unless the requests first filled the pool here, each server up to its
// limit, and then went to cluster east.
func overflowed(all []spilled) error {
	local := names("llama")
	room := perServer * len(local)
	count := map[string]int{}
	for i, r := range all {
		want := "picked"
		if i >= room {
			want = "spilled"
		}
		isLocal := slices.Contains(local, r.by)
		if isLocal != (i < room) || r.pick.Result != want || isLocal && first(r.pick.Endpoints) != r.at {
			return fmt.Errorf(
				"expected the first %d requests here and the others in cluster east; request %d was %q (%s) and went "+
					"to %s at %s", room, i+1, r.pick.Result, r.pick.Endpoints, r.by, r.at)
		}
		count[r.by]++
	}
	for _, name := range local {
		if count[name] != perServer {
			return fmt.Errorf("expected %d requests at each server here, got %d at %s", perServer, count[name], name)
		}
	}
	return nil
}
