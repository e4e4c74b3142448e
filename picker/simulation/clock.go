package simulation

import "time"

type clock struct {
	now    time.Duration
	added  uint64
	events []event
}

type event struct {
	at    time.Duration
	order uint64
	run   func()
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

func (c *clock) at(t time.Duration, run func()) {
	c.added++
	c.events = append(c.events, event{t, c.added, run})
	for i := len(c.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !c.events[i].before(&c.events[parent]) {
			break
		}
		c.events[i], c.events[parent] = c.events[parent], c.events[i]
		i = parent
	}
}

func (c *clock) next() bool {
	if len(c.events) == 0 {
		return false
	}
	first, last := c.events[0], len(c.events)-1
	c.events[0] = c.events[last]
	c.events[last] = event{}
	c.events = c.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if c.events[child].before(&c.events[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		c.events[i], c.events[least] = c.events[least], c.events[i]
		i = least
	}
	c.now = first.at
	first.run()
	return true
}
