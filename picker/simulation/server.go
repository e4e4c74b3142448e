package simulation

import (
	"slices"
	"time"
)

// BlockTokens is the number of tokens in a KV block, and in a block of a prompt.
const BlockTokens = 512

// ServerConfig describes a model server. A zero value means the default.
type ServerConfig struct {
	// A step takes Base, plus Step or the time to read the step's prompt tokens (the longer of
	// both), plus PerSequence for each running request. Step is the time in which a GPU reads the
	// weights. It computes at the same time, so Base is 0 by default.
	Base        time.Duration
	Step        time.Duration // default 20 ms
	PerSequence time.Duration // default 0.3 ms
	PrefillRate float64       // prompt tokens a second; default 8,000
	Chunk       int           // maximum of prompt tokens in a step; default 2,048
	Sequences   int           // maximum of running requests; default 128
	Blocks      int           // size of the KV cache, in blocks; default 1,500
	// AdapterSlots is the maximum of loaded adapters; default 4. AdapterLoad is the time to load
	// an adapter, default 300 ms. The server does nothing else meanwhile.
	AdapterSlots int
	AdapterLoad  time.Duration
	// TokenizerRate is in tokens a second; default 250,000. The server tokenizes one prompt at a
	// time, before it sends a stream's headers and queues the request.
	TokenizerRate float64
}

func (c ServerConfig) withDefaults() ServerConfig {
	return ServerConfig{
		c.Base, or(c.Step, 20*time.Millisecond), or(c.PerSequence, 300*time.Microsecond), or(c.PrefillRate, 8000),
		or(c.Chunk, 2048),
		or(c.Sequences, 128), or(c.Blocks, 1500), or(c.AdapterSlots, 4), or(c.AdapterLoad, 300*time.Millisecond),
		or(c.TokenizerRate, 250_000),
	}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

type server struct {
	config       ServerConfig
	clock        *clock
	cache        *kvCache
	waiting      []*sequence
	running      []*sequence // in order of admission
	loaded       adapters
	first, ended func(*sequence)

	stepping bool
	began    time.Duration
	each     time.Duration
	steps    int // equal steps that run as one; more than one only without prompt tokens
	// Totals over ended requests, as in vLLM's series: the seconds from the first step to the first
	// token, and the computed prompt tokens.
	prefillSeconds, prefillTokens float64

	batch uint64 // the number of planned ends so far; an event of an earlier one is ignored

	tokenized time.Duration // when all prompts so far are tokenized
}

type sequence struct {
	number    int
	request   *Request
	outcome   *Outcome
	left      int // tokens left to compute: of the prompt, and generated before a preemption
	generated int
	allocated int // including shared blocks
	computed  int
	shared    int // first blocks that are in the cache
	decoding  bool
	admitted  bool // at least once, before any preemption
	first     time.Duration
}

func (s *sequence) tokens() int { return s.request.Input + s.generated }

func newServer(c ServerConfig, clk *clock, tree int, first, ended func(*sequence)) *server {
	return &server{config: c, clock: clk, cache: newKVCache(c.Blocks, tree), loaded: adapters{slots: c.AdapterSlots},
		first: first, ended: ended}
}

// add accepts a request: after all earlier prompts, the server tokenizes its prompt, sends a
// stream's headers, and queues the request.
func (s *server) add(number int, r *Request, o *Outcome) {
	s.tokenized = max(s.tokenized, s.clock.now) + time.Duration(
		float64(r.Input)/s.config.TokenizerRate*float64(time.Second))
	s.clock.at(s.tokenized, func() {
		if !r.Whole {
			o.Headers = s.clock.now
		}
		s.queue(&sequence{number: number, request: r, outcome: o})
	})
}

func (s *server) queue(q *sequence) {
	s.waiting = append(s.waiting, q)
	switch {
	case !s.stepping:
		s.step()
	case s.steps > 1 && len(s.running) < s.config.Sequences:
		// The next step may admit the request, so a batch of equal steps ends after this step.
		if done := int((s.clock.now-s.began)/s.each) + 1; done < s.steps {
			s.run(done)
		}
	}
}

func (s *server) run(steps int) {
	s.steps = steps
	s.batch++
	batch := s.batch
	s.clock.at(s.began+time.Duration(steps)*s.each, func() {
		if batch == s.batch {
			s.finish()
		}
	})
}

// step begins the next step. Without prompt tokens, it begins a batch of equal steps: as many as
// pass until a request is admitted, ends or needs a block.
func (s *server) step() {
	prompt := 0
	for _, q := range s.running {
		if !q.decoding {
			prompt += s.prefill(q, s.config.Chunk-prompt)
		}
	}
	admitted, loading := s.admit(prompt)
	prompt += admitted
	if s.stepping = len(s.running) > 0; !s.stepping {
		return
	}
	s.began = s.clock.now
	reads := time.Duration(float64(prompt) / s.config.PrefillRate * float64(time.Second))
	s.each = s.config.Base + max(s.config.Step, reads) +
		time.Duration(len(s.running))*s.config.PerSequence + loading
	steps := 1
	if prompt == 0 {
		steps = s.running[0].steady()
		for _, q := range s.running[1:] {
			steps = min(steps, q.steady())
		}
	}
	s.run(steps)
}

func (s *sequence) steady() int {
	return max(1, min(s.request.Output-s.generated, s.allocated*BlockTokens-s.tokens()))
}

// admit starts waiting requests in order, within the server's limits. prompt is the number of
// prompt tokens that the step already has. admit returns the further prompt tokens in this step,
// and the time to load adapters.
func (s *server) admit(prompt int) (tokens int, loading time.Duration) {
	for i := 0; i < len(s.waiting) && prompt+tokens < s.config.Chunk && len(s.running) < s.config.Sequences; {
		q := s.waiting[i]
		if !s.loaded.available(q.request.Adapter) {
			i++ // later requests may use another adapter
			continue
		}
		if !s.place(q) {
			break
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.running = append(s.running, q)
		if s.loaded.use(q.request.Adapter) {
			loading += s.config.AdapterLoad
		}
		if !q.admitted {
			q.admitted, q.outcome.Scheduled = true, s.clock.now
		}
		tokens += s.prefill(q, s.config.Chunk-prompt-tokens)
	}
	return tokens, loading
}

func (s *server) place(q *sequence) bool {
	blocks := q.request.full()
	hit := s.cache.match(blocks)
	if hit*BlockTokens >= q.tokens() { // the server always computes the last token
		hit--
	}
	for _, b := range blocks[:hit] {
		s.cache.use(b)
	}
	need := (q.tokens() + BlockTokens) / BlockTokens // with room for the first token
	if !s.cache.allocate(need - hit) {
		for i := hit - 1; i >= 0; i-- {
			s.cache.unuse(blocks[i])
		}
		return false
	}
	q.shared, q.allocated, q.left = hit, need, q.tokens()-hit*BlockTokens
	if !q.admitted {
		q.outcome.Cached = hit * BlockTokens
	}
	return true
}

func (s *server) prefill(q *sequence, n int) int {
	n = min(n, q.left)
	q.left -= n
	if q.generated == 0 {
		q.computed += n
	}
	blocks := q.request.full()
	for done := min((q.tokens()-q.left)/BlockTokens, len(blocks)); q.shared < done; q.shared++ {
		s.cache.computed(blocks[q.shared])
	}
	return n
}

func (s *server) finish() {
	for _, q := range s.running {
		switch {
		case q.decoding:
			q.generated += s.steps
		case q.left == 0:
			q.decoding = true
			if q.generated++; q.generated == 1 {
				if q.first = s.clock.now; !q.request.Whole {
					s.begin(q)
				}
			}
		}
	}
	for i := 0; i < len(s.running); i++ {
		q := s.running[i]
		if q.decoding && q.generated >= q.request.Output {
			s.running = slices.Delete(s.running, i, i+1)
			i--
			s.release(q)
			if q.request.Whole {
				q.outcome.Headers = s.clock.now
				s.begin(q)
			}
			q.outcome.End = s.clock.now
			s.prefillSeconds += (q.first - q.outcome.Scheduled).Seconds()
			s.prefillTokens += float64(q.computed)
			s.ended(q)
		}
	}
	for i := 0; i < len(s.running); i++ {
		for q := s.running[i]; q.decoding && q.tokens() >= q.allocated*BlockTokens; {
			if s.cache.allocate(1) {
				q.allocated++
				continue
			}
			s.preempt()
			if i >= len(s.running) {
				break // q itself was preempted
			}
		}
	}
	s.step()
}

func (s *server) begin(q *sequence) {
	q.outcome.FirstByte = s.clock.now
	s.first(q)
}

// preempt puts the last admitted request back into the queue. The server later computes its blocks
// again.
func (s *server) preempt() {
	last := len(s.running) - 1
	q := s.running[last]
	s.running = s.running[:last]
	s.release(q)
	q.decoding = false
	q.outcome.Preempted++
	s.waiting = slices.Insert(s.waiting, 0, q)
}

// release frees a request's blocks, the prompt's end first: later requests more likely reuse the
// beginning.
func (s *server) release(q *sequence) {
	blocks := q.request.full()
	for i := q.shared - 1; i >= 0; i-- {
		s.cache.unuse(blocks[i])
	}
	s.cache.free += q.allocated - q.shared
	s.loaded.unuse(q.request.Adapter)
}

// Page has the values of a server's metrics page.
type Page struct {
	Waiting, Running int
	KV               float64 // share of blocks in use, 0 to 1
	// Active lists the adapters with running requests, and Awaited the adapters whose requests all
	// wait. Slots is the number of adapter slots.
	Active, Awaited []int
	Slots           int
	// Totals over ended requests: the seconds to read their prompts, and the computed prompt
	// tokens.
	PrefillSeconds, PrefillTokens float64
}

func (s *server) page() Page {
	p := Page{Waiting: len(s.waiting), Running: len(s.running), KV: s.cache.share(), Slots: s.config.AdapterSlots,
		PrefillSeconds: s.prefillSeconds, PrefillTokens: s.prefillTokens}
	for _, l := range s.loaded.loaded {
		if l.users > 0 {
			p.Active = append(p.Active, l.name)
		}
	}
	for _, q := range s.waiting {
		if name := q.request.Adapter; name != 0 && !slices.Contains(p.Active, name) &&
			!slices.Contains(p.Awaited, name) {
			p.Awaited = append(p.Awaited, name)
		}
	}
	return p
}

type adapters struct {
	slots  int
	loaded []adapter
}

type adapter struct{ name, users int }

func (a *adapters) find(name int) int {
	return slices.IndexFunc(a.loaded, func(l adapter) bool { return l.name == name })
}

// available reports whether a request for an adapter can run. Adapter 0 means no adapter.
func (a *adapters) available(name int) bool {
	return name == 0 || len(a.loaded) < a.slots || a.find(name) >= 0 ||
		slices.ContainsFunc(a.loaded, func(l adapter) bool { return l.users == 0 })
}

func (a *adapters) use(name int) (load bool) {
	if name == 0 {
		return false
	}
	used := adapter{name: name}
	if i := a.find(name); i >= 0 {
		used = a.loaded[i]
		a.loaded = slices.Delete(a.loaded, i, i+1)
	} else {
		load = true
		if len(a.loaded) == a.slots {
			i := slices.IndexFunc(a.loaded, func(l adapter) bool { return l.users == 0 })
			a.loaded = slices.Delete(a.loaded, i, i+1)
		}
	}
	used.users++
	a.loaded = append(a.loaded, used)
	return load
}

func (a *adapters) unuse(name int) {
	if name != 0 {
		a.loaded[a.find(name)].users--
	}
}
