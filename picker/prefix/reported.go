package prefix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Knowledge is how far a server's reports show what it has cached.
type Knowledge int32

// The values of Knowledge.
const (
	// Guessed: not at all. What picks sent there counts as cached.
	Guessed Knowledge = iota
	// Partly: what is reported is cached, and more may be. The larger of both counts.
	Partly
	// Reported: what is not reported is not cached, but for the picks of the last moments.
	Reported
)

// String returns the value's name.
func (k Knowledge) String() string {
	return [...]string{Guessed: "guessed", Partly: "partly reported", Reported: "reported"}[k]
}

const (
	// pickedFor is how long a pick counts as cached where a server reports what it has: the server
	// reports a prompt's blocks when it has read them.
	pickedFor = 2 * time.Second
	// maxAdapters bounds the adapters of one server whose blocks are kept apart.
	maxAdapters = 256
)

// reported is what a server has cached by its own reports, and by picks of the last moments. Its
// blocks have keys of their own in the table of holders.
type reported struct {
	known    atomic.Int32
	adapters atomic.Pointer[[]uint64] // hashes of the names of adapters with blocks; replaced under Server.mu

	// The rest is guarded by Server.mu.
	holds map[uint64]hold
	picks []picked // in the order of until
}

// hold is why a block counts as cached.
type hold struct {
	reports int32 // how often it was reported, less how often it was withdrawn
	until   int64 // end of its last pick, in nanoseconds since the Unix epoch; 0: it is not in picks
}

type picked struct {
	key   uint64
	until int64
}

// ReportSeed returns the seed of reported keys of an adapter, 0 for the base model, and a cache
// salt, 0 for none; both are hashes by NameHash.
func (x *Index) ReportSeed(adapter, salt uint64) uint64 { return mix(mix(x.seed, adapter), salt) }

// NameHash returns the hash of an adapter's name or a cache salt.
func NameHash(name []byte) uint64 { return max(xxhash.Sum64(name), 1) }

// Knowledge returns how far s's reports show what it has.
func (s *Server) Knowledge() Knowledge { return Knowledge(s.reported.known.Load()) }

// SetKnowledge is called by the reader of s's reports. A server is Guessed at first.
func (s *Server) SetKnowledge(k Knowledge) {
	if old := Knowledge(s.reported.known.Swap(int32(k))); (old == Guessed) != (k == Guessed) {
		if k == Guessed {
			s.index.reporting.Add(-1)
		} else {
			s.index.reporting.Add(1)
		}
	}
}

// Hold records that s reports a block. Each call needs a Drop. It returns false, and records
// nothing, if s has as many blocks as it may.
func (s *Server) Hold(key uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold(key, 1, 0)
}

// Drop records that s does not have a block any more.
func (s *Server) Drop(key uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.reported.holds[key]
	if !ok || h.reports == 0 {
		return
	}
	h.reports--
	s.setHold(key, h)
}

// NoteAdapter records that s has blocks of an adapter: requests for a model of this name are
// matched with the adapter's blocks there, and not with the base model's.
func (s *Server) NoteAdapter(adapter uint64) {
	if adapter == 0 || s.hasAdapter(adapter) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []uint64
	if old := s.reported.adapters.Load(); old != nil {
		if len(*old) >= maxAdapters {
			return
		}
		next = slices.Clone(*old)
	}
	next = append(next, adapter)
	s.reported.adapters.Store(&next)
}

func (s *Server) hasAdapter(adapter uint64) bool {
	list := s.reported.adapters.Load()
	return list != nil && slices.Contains(*list, adapter)
}

// ClearReports removes all that s has reported. Picks of the last moments stay.
func (s *Server) ClearReports() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearHolds(true)
}

// clearHolds removes reported blocks, and picked ones unless they are to stay. s.mu is held.
func (s *Server) clearHolds(keepPicks bool) {
	for key, h := range s.reported.holds {
		h.reports = 0
		if !keepPicks {
			h.until = 0
		}
		s.setHold(key, h)
	}
	if len(s.reported.holds) == 0 {
		s.reported.holds, s.reported.picks = nil, nil
	}
	s.reported.adapters.Store(nil)
}

// hold adds a report or a pick of a block. s.mu is held.
func (s *Server) hold(key uint64, reports int32, until int64) bool {
	if s.released {
		return false
	}
	h, ok := s.reported.holds[key]
	if !ok {
		if len(s.reported.holds) >= s.index.share() || s.index.reported.Load() >= int64(s.index.blocks) {
			return false
		}
		if s.reported.holds == nil {
			s.reported.holds = map[uint64]hold{}
		}
		s.index.reported.Add(1)
		s.index.holders.add(key, s.id)
	}
	h.reports += reports
	if until > 0 {
		if h.until == 0 {
			s.reported.picks = append(s.reported.picks, picked{key, until})
		}
		h.until = max(h.until, until)
	}
	s.reported.holds[key] = h
	return true
}

// setHold stores a hold, or removes a block without one. s.mu is held.
func (s *Server) setHold(key uint64, h hold) {
	if h.reports > 0 || h.until > 0 {
		s.reported.holds[key] = h
		return
	}
	delete(s.reported.holds, key)
	s.index.reported.Add(-1)
	s.index.holders.remove(key, s.id)
}

// Expect has a prompt count as cached at a server that reports what it has, for two seconds: it was
// just sent there.
func (x *Index) Expect(s *Server, e *Exact, model string, now time.Time) {
	if len(e.Ends) == 0 || s.Knowledge() == Guessed {
		return
	}
	m := reportMatches.Get().(*reportMatch)
	defer reportMatches.Put(m)
	adapter := uint64(0)
	if name := xxhash.Sum64String(model); s.hasAdapter(name) {
		adapter = name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now.UnixNano())
	until := now.Add(pickedFor).UnixNano()
	for _, key := range e.chain(&m.chain, x.ReportSeed(adapter, e.Salt)) {
		if !s.hold(key, 0, until) {
			return
		}
	}
}

// Picks returns how many blocks count as cached because of picks of the last moments.
func (s *Server) Picks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reported.picks)
}

// Expire ends the picks of the last moments that are older than two seconds.
func (s *Server) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now.UnixNano())
}

func (s *Server) expire(now int64) {
	n := 0
	var again []picked
	for ; n < len(s.reported.picks) && s.reported.picks[n].until <= now; n++ {
		p := s.reported.picks[n]
		h, ok := s.reported.holds[p.key]
		switch {
		case !ok || h.until == 0:
		case h.until > now: // it was picked again since
			again = append(again, picked{p.key, h.until})
		default:
			h.until = 0
			s.setHold(p.key, h)
		}
	}
	if n == 0 {
		return
	}
	s.reported.picks = append(slices.Delete(s.reported.picks, 0, n), again...)
	if len(again) > 0 {
		slices.SortFunc(s.reported.picks, func(a, b picked) int { return int(min(max(a.until-b.until, -1), 1)) })
	}
}

var reportMatches = sync.Pool{New: func() any { return new(reportMatch) }}

// reportMatch is the working memory of one MatchReports or Expect.
type reportMatch struct {
	chain  [MaxBlocks]uint64
	cached []int32
}

// MatchReports completes what Match has found: cached[i] becomes the number of tokens of a prompt
// that servers[i] reports to have cached, if it reports that. The others keep their number. model
// is the request's, which may be an adapter's name.
func (x *Index) MatchReports(e *Exact, model string, servers []*Server, cached []int32) {
	if len(e.Ends) == 0 || x.reporting.Load() == 0 {
		return
	}
	adapter := xxhash.Sum64String(model)
	base, adapted := false, false
	for _, s := range servers {
		if s.Knowledge() != Guessed {
			has := s.hasAdapter(adapter)
			base, adapted = base || !has, adapted || has
		}
	}
	m := reportMatches.Get().(*reportMatch)
	defer reportMatches.Put(m)
	m.cached = slices.Grow(m.cached[:0], len(servers))[:len(servers)]
	if base {
		x.matchReports(e.chain(&m.chain, x.ReportSeed(0, e.Salt)), m.cached, servers, cached,
			func(s *Server) bool { return !s.hasAdapter(adapter) })
	}
	if adapted {
		x.matchReports(e.chain(&m.chain, x.ReportSeed(adapter, e.Salt)), m.cached, servers, cached,
			func(s *Server) bool { return s.hasAdapter(adapter) })
	}
}

func (x *Index) matchReports(c Chain, found []int32, servers []*Server, cached []int32, of func(*Server) bool) {
	x.Match(c, servers, found)
	for i, s := range servers {
		switch known := s.Knowledge(); {
		case known == Guessed || !of(s):
		case known == Reported:
			cached[i] = found[i]
		default:
			cached[i] = max(cached[i], found[i])
		}
	}
}
