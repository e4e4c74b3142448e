package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/schedule"
)

// The servers of pool gemma cache prompts, and one of two adapters can be active at a time.
const (
	prefillRate = 1000 // tokens of a prompt that are read in a second
	cacheTokens = 4096
	turns       = 6         // of a conversation after its first
	gemma       = "/prefix" // the path of the pool's route
)

var adapters = []string{"sql", "french"}

// conversation shows that each question of a conversation goes to the server that has the earlier
// ones cached.
func conversation(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	q := question("gemma", "You are given a contract. "+
		strings.Repeat("The party of the first part agrees with the party of the second part. ", 40)+
		"What is the first paragraph about?")
	q.MaxTokens = 2
	p.text(fmt.Sprintf("A question about a long contract, and then %d more about the same one:", turns))
	var home answer
	var later time.Duration
	for turn := range 1 + turns {
		a, err := s.ask(ctx, s.here.url+prefix, q)
		if err != nil {
			return "", err
		}
		if err := a.expectFrom("gemma-"); err != nil {
			return "", err
		}
		p.line("     %s  %4d ms", p.column(a.By), a.Took.Milliseconds())
		if turn == 0 {
			home = a
		} else {
			later = max(later, a.Took)
		}
		if a.By != home.By {
			return "",
				fmt.Errorf("expected every question at %s, which has the contract cached; question %d went to %s",
					home.By, turn+1, a.By)
		}
		q.Messages = append(q.Messages, message{"assistant", a.Text},
			message{"user", fmt.Sprintf("And paragraph %d?", turn+2)})
	}
	if later > home.Took*2/3 {
		return "",
			fmt.Errorf("expected answers sooner than the first, which took %d ms; one took %d ms",
				home.Took.Milliseconds(), later.Milliseconds())
	}
	p.why("the picker hashes prompts in blocks, and remembers which server was sent which. %s reads only what is new.",
		home.By)
	return fmt.Sprintf("all %d questions went to %s; the first answer took %d ms, later ones at most %d ms", 1+turns,
		home.By, home.Took.Milliseconds(), later.Milliseconds()), nil
}

// adapter shows that requests for a LoRA adapter go where it is active.
func adapter(ctx context.Context, s *stage, p *page, _ string) (string, error) {
	homes := map[string]string{}
	p.text(
		"One request for each, by which the picker learns that these models are adapters, and then three more that " +
			"are in flight at the same time:")
	p.curl(gemma, adapterTask(0, adapters[0]))
	for round := range 4 {
		for _, name := range adapters {
			answer, err := s.open(ctx, s.here.url+gemma, adapterTask(round, name))
			if err != nil {
				return "", err
			}
			defer answer.close()
			if round <= 1 {
				homes[name] = answer.By
				if err := s.waitActive(ctx, name, answer.By); err != nil {
					return "", err
				}
			}
			if round == 0 {
				if _, err := answer.rest(); err != nil {
					return "", err
				}
				continue
			}
			p.line("     %s  %s", p.column(answer.By), p.paint(faint, "model "+name))
			if answer.By != homes[name] {
				return "",
					fmt.Errorf("expected adapter %s to stay at %s, where it is active; a request went to %s", name,
						homes[name], answer.By)
			}
		}
	}
	if homes[adapters[0]] == homes[adapters[1]] {
		return "",
			fmt.Errorf("expected the adapters at different servers, each of which has room for one; both are at %s",
				homes[adapters[0]])
	}
	p.why(
		"each server has room for one adapter at a time. The picker reads on the servers' pages which one is " +
			"active where.")
	return fmt.Sprintf("%s stayed at %s, and %s at %s: no server had to load another adapter", adapters[0],
		homes[adapters[0]], adapters[1], homes[adapters[1]]), nil
}

// adapterTask is a request for an adapter. The first one is short.
func adapterTask(round int, name string) chat {
	q := question(name, fmt.Sprintf("Task %d of adapter %s", round, name))
	q.MaxTokens, q.IgnoreEOS = 40, true // long enough for a page to show it: pages are read each second
	if round > 0 {
		q.MaxTokens = 100
	}
	return q
}

// waitActive waits until the picker has read on a server's page that an adapter is active there.
func (s *stage) waitActive(ctx context.Context, adapter, server string) error {
	return s.waitState(ctx, s.here.url+gemma+completions, "default/gemma", func(verdicts []schedule.Verdict) bool {
		return slices.ContainsFunc(verdicts, func(v schedule.Verdict) bool {
			return podName(v.Pod) == server && v.State.Adapters.Has(adapter)
		})
	})
}

// overload fills the servers' caches with long answers: work that can wait gets 429, other requests
// are served.
func overload(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	long := question("gemma", "Count all the sheep")
	long.MaxTokens, long.IgnoreEOS = cacheTokens*85/100, true
	p.text("Other clients ask the servers directly, for answers so long that each fills a KV cache:")
	for _, name := range names("gemma") {
		server := fmt.Sprintf("http://127.0.0.1:%d", s.ports[name])
		p.line("     %s  %s", p.column(name), p.paint(faint, server+completions))
		answer, err := s.open(ctx, server, long)
		if err != nil {
			return "", err
		}
		defer answer.close()
	}
	q := question("gemma", "Summarise this when there is time")
	q.MaxTokens = 2
	p.text("Now a request that can wait, and one that cannot:")
	p.curl(prefix, q)
	var shed answer
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := waitUntil(waiting, func() (_ bool, err error) { // the next page that the picker reads has the cache
		shed, err = s.ask(ctx, s.here.url+prefix, q)
		return shed.Status != http.StatusOK, err
	})
	if err != nil {
		return "", err
	}
	var body struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(shed.Text), &body); err != nil || shed.Status != http.StatusTooManyRequests ||
		body.Error.Code != "shed" {
		return "", fmt.Errorf("expected 429 with the code shed, got %d: %s", shed.Status, shed.Text)
	}
	p.line("     %d  %s", shed.Status, p.paint(faint, body.Error.Message))
	p.curl(gemma, q)
	a, err := s.ask(ctx, s.here.url+gemma, q)
	if err != nil {
		return "", err
	}
	p.answer(a)
	if err := a.expectFrom("gemma-"); err != nil {
		return "", err
	}
	return "the pool of sheddable work answered 429; the other pool of the same servers still answered 200", nil
}
