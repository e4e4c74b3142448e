package simulate

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// event is something that happens in a world, such as the arrival of a message or a fault.
type event struct {
	at   time.Time
	name string // unique; orders events of one instant
	fire func()
}

// world is the simulation of a seed. One goroutine runs it. Other goroutines only call schedule.
type world struct {
	t     *testing.T
	seed  uint64
	began time.Time
	nodes []*node
	net   *network
	fail  string // the first violated invariant
	ended []*process
	log   strings.Builder

	mu     sync.Mutex
	events []*event
	last   map[string]time.Time // time of each queue's last event
	wake   chan struct{}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, began: time.Now(), last: map[string]time.Time{}, wake: make(chan struct{}, 1)}
	w.net = newNetwork(w)
	return w
}

// draw returns a number below n that depends only on the seed and the name.
func (w *world) draw(n int, name string) int {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", w.seed, name)
	x := h.Sum64() // mixed as in splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

func (w *world) note(format string, args ...any) {
	_, _ = fmt.Fprintf(&w.log, "%10.6f %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *world) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note("VIOLATED: %s", text)
	if w.fail == "" {
		w.fail = text
	}
}

// schedule schedules an event. If queue is not "", the event comes after all events of that queue.
func (w *world) schedule(queue, name string, after time.Duration, fire func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(after)
	if queue != "" {
		if last := w.last[queue]; !at.After(last) {
			at = last.Add(time.Microsecond)
		}
		w.last[queue] = at
	}
	w.events = append(w.events, &event{at, name, fire})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *world) next() (first *event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if first == nil || e.at.Before(first.at) || e.at.Equal(first.at) && e.name < first.name {
			first = e
		}
	}
	return first
}

func (w *world) remove(e *event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = slices.DeleteFunc(w.events, func(o *event) bool { return o == e })
}

func (w *world) run(until time.Time) {
	for w.fail == "" {
		synctest.Wait()
		w.checkAll()
		e := w.next()
		wait := time.Until(until)
		if e != nil && e.at.Before(until) {
			wait = time.Until(e.at)
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-w.wake:
			}
			timer.Stop()
			continue
		}
		if e == nil || !e.at.Before(until) {
			return
		}
		w.remove(e)
		w.note("%s", e.name)
		w.before(e)
		e.fire()
		synctest.Wait()
		w.after(e)
	}
}

func (w *world) end() {
	for _, n := range w.nodes {
		for _, p := range n.processes {
			p.kill(false)
			w.ended = append(w.ended, p)
		}
	}
	for _, p := range w.ended {
		<-p.done
	}
	synctest.Wait()
}
