package prefix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Knowledge is how completely a server reports its cache.
type Knowledge int32

const (
	// Guessed means that the server sends no reports. Prompts that picks sent to it count as
	// cached.
	Guessed Knowledge = iota
	// Partly means that reports may be incomplete. The number of cached tokens is the larger one of
	// two: by reports, and by picks.
	Partly
	// Reported means that only reported blocks and recent picks count as cached.
	Reported
)

// String returns the name of k for users.
func (k Knowledge) String() string {
	return [...]string{Guessed: "guessed", Partly: "partly reported", Reported: "reported"}[k]
}

const (
	pickedFor   = 2 * time.Second
	maxAdapters = 256
)

type reported struct {
	known    atomic.Int32
	adapters atomic.Pointer[[]uint64] // hashes (NameHash) of adapters with reported blocks; replaced under Server.mu

	// Server.mu guards the fields below.
	holds map[uint64]hold
	picks []picked // sorted by until
}

type hold struct {
	reports int32
	until   int64 // in nanoseconds since 1970; 0 without a pick
}

type picked struct {
	key   uint64
	until int64
}

// ReportSeed returns the seed for the keys of reported blocks. adapter and salt are hashes by
// NameHash; 0 means none.
func (x *Index) ReportSeed(adapter, salt uint64) uint64 { return mix(mix(x.seed, adapter), salt) }

// NameHash returns the hash of an adapter's name or a cache salt.
func NameHash(name []byte) uint64 { return max(xxhash.Sum64(name), 1) }

// Knowledge returns how completely s reports its cache.
func (s *Server) Knowledge() Knowledge { return Knowledge(s.reported.known.Load()) }

// SetKnowledge sets how completely s reports its cache; a new server is Guessed. The reader of s's
// reports calls it.
func (s *Server) SetKnowledge(k Knowledge) {
	if old := Knowledge(s.reported.known.Swap(int32(k))); (old == Guessed) != (k == Guessed) {
		if k == Guessed {
			s.index.reporting.Add(-1)
		} else {
			s.index.reporting.Add(1)
		}
	}
}

// Hold records that s reports a block as cached. It returns false, without an effect, if s has its
// maximum of blocks. After true, the caller calls Drop when s no longer has the block.
func (s *Server) Hold(key uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold(key, 1, 0)
}

// Drop reverts one Hold of a block.
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

// NoteAdapter records that s reports blocks of an adapter. Requests for this adapter then match
// only the adapter's blocks, not the base model's.
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

// ClearReports removes all blocks and adapters that s reported. Blocks of recent picks still count.
func (s *Server) ClearReports() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearHolds(true)
}

// The caller holds s.mu.
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

// The caller holds s.mu.
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

// The caller holds s.mu.
func (s *Server) setHold(key uint64, h hold) {
	if h.reports > 0 || h.until > 0 {
		s.reported.holds[key] = h
		return
	}
	delete(s.reported.holds, key)
	s.index.reported.Add(-1)
	s.index.holders.remove(key, s.id)
}

// Expect makes a prompt that was just sent to a server count as cached for pickedFor, until reports
// arrive. It has no effect on a server without reports.
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

// Picks counts the blocks of s that count as cached because of Expect.
func (s *Server) Picks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reported.picks)
}

// Expire ends the effect of Expect for prompts that were sent more than pickedFor ago.
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
		case h.until > now: // picked again
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

type reportMatch struct {
	chain  [MaxBlocks]uint64
	cached []int32
}

// MatchReports corrects Match's result for servers that send reports. model may be an adapter's
// name.
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

func (x *Index) matchReports(c Chain, found []int32, servers []*Server, cached []int32, match func(*Server) bool) {
	x.Match(c, servers, found)
	for i, s := range servers {
		switch known := s.Knowledge(); {
		case known == Guessed || !match(s):
		case known == Reported:
			cached[i] = found[i]
		default:
			cached[i] = max(cached[i], found[i])
		}
	}
}
