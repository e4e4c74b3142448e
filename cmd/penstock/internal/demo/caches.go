package demo

import (
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

// conversation shows that each question of a conversation goes to the server that has the ones
// before it cached.
func conversation(d *show) []any {
	q := question("gemma", "You are given a contract. "+
		strings.Repeat("The party of the first part agrees with the party of the second part. ", 40)+
		"What is the first paragraph about?", 2)
	d.text("A question about a long contract, and then %d more about the same one:", turns)
	var home answer
	var later time.Duration
	for turn := range 1 + turns {
		a := d.askFrom("gemma-", d.step.Prefix, q)
		d.by(a.By, "%4d ms", a.Took.Milliseconds())
		if turn == 0 {
			home = a
		} else {
			later = max(later, a.Took)
		}
		expect(a.By == home.By, "every question at %s, which has the contract cached; question %d went to %s", home.By,
			turn+1, a.By)
		q.Messages = append(q.Messages, message{"assistant", a.Text},
			message{"user", fmt.Sprintf("And paragraph %d?", turn+2)})
	}
	expect(later <= home.Took*2/3, "answers sooner than the first, which took %d ms; one took %d ms",
		home.Took.Milliseconds(), later.Milliseconds())
	d.why(home.By)
	return []any{1 + turns, home.By, home.Took.Milliseconds(), later.Milliseconds()}
}

// adapter shows that requests for a LoRA adapter go where it is active.
func adapter(d *show) []any {
	homes := map[string]string{}
	d.text("One request for each, by which the picker learns that these models are adapters, and then three more " +
		"that are in flight at the same time:")
	d.curl(gemma, adapterTask(0, adapters[0]))
	for round := range 4 {
		for _, name := range adapters {
			answer := d.open(d.url+gemma, adapterTask(round, name))
			if round <= 1 {
				homes[name] = answer.By
				// until the picker has read on the server's page that the adapter is active there
				d.waitState("default/gemma", func(verdicts []schedule.Verdict) bool {
					return slices.ContainsFunc(verdicts, func(v schedule.Verdict) bool {
						return podName(v.Pod) == answer.By && v.State.Adapters.Has(name)
					})
				})
			}
			if round == 0 {
				_ = must(answer.read(ignore))
				continue
			}
			d.by(answer.By, "%s", d.paint(faint, "model "+name))
			expect(answer.By == homes[name], "adapter %s to stay at %s, where it is active; a request went to %s", name,
				homes[name], answer.By)
		}
	}
	one, other := homes[adapters[0]], homes[adapters[1]]
	expect(one != other, "the adapters at different servers, each of which has room for one; both are at %s", one)
	d.why()
	return []any{adapters[0], one, adapters[1], other}
}

// adapterTask is a request for an adapter. The first one is short, but long enough for a page to
// show it: pages are read each second.
func adapterTask(round int, name string) chat {
	return long(name, fmt.Sprintf("Task %d of adapter %s", round, name), []int{40, 100, 100, 100}[round])
}

// overload fills the servers' caches with long answers. Work that can wait gets 429, and other
// requests are served.
func overload(d *show) []any {
	d.text("Other clients ask the servers directly, for answers so long that each fills a KV cache:")
	for _, name := range names("gemma") {
		server := "http://" + d.address(name)
		d.by(name, "%s", d.paint(faint, server+completions))
		d.open(server, long("gemma", "Count all the sheep", cacheTokens*85/100))
	}
	q := question("gemma", "Summarise this when there is time", 2)
	d.text("Now a request that can wait, and one that cannot:")
	d.curl(d.step.Prefix, q)
	var shed answer
	check(wait(d.ctx, func() bool { // the next page that the picker reads has the cache
		shed = d.ask(d.ctx, d.url+d.step.Prefix, q)
		return shed.Status != http.StatusOK
	}))
	var body struct {
		Error struct{ Code, Message string }
	}
	err := json.Unmarshal([]byte(shed.Text), &body)
	expect(err == nil && shed.Status == http.StatusTooManyRequests && body.Error.Code == "shed",
		"429 with the code shed, got %d: %s", shed.Status, shed.Text)
	d.line("     %d  %s", shed.Status, d.paint(faint, body.Error.Message))
	d.exchange(gemma, q, "gemma-")
	return nil
}
