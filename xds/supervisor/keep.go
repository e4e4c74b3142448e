package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/xds/admission/ports"
)

// Kept is an Envoy that the next program of this process adopts (after exec).
type Kept struct {
	Gateway string
	PID     int
	Stderr  int // file descriptor of its log
	Envoy   Binary
	// Args and Bootstrap are hashes.
	Args, Bootstrap string
}

// differs describes how `from` is started differently from k, or returns "".
func (k *Kept) differs(from *Kept) string {
	what := func(same bool, text string) string {
		if same {
			return ""
		}
		return text
	}
	return cmp.Or(
		what(k.Envoy == from.Envoy, fmt.Sprintf("Envoy %s at %s", from.Envoy.Version, from.Envoy.Path)),
		what(k.Args == from.Args, "Envoy with other arguments"),
		what(k.Bootstrap == from.Bootstrap, "Envoy with another bootstrap"))
}

type supervised struct {
	kept  Kept
	child *child // nil if not adopted yet
}

func (s *Supervisor) inherit() {
	s.runs = map[string]*supervised{}
	for _, k := range s.cfg.Kept {
		syscall.CloseOnExec(k.Stderr)
		s.kept = append(s.kept, k)
		s.runs[k.Gateway] = &supervised{kept: k}
	}
}

// take returns the earlier program's Envoy for a Gateway, once, or nil.
func (s *Supervisor) take(gateway string) *Kept {
	for i, k := range s.kept {
		if k.Gateway == gateway {
			s.kept = append(s.kept[:i:i], s.kept[i+1:]...)
			return &k
		}
	}
	return nil
}

// Keep returns the running Envoys. If it succeeds, no Envoy is started from then on, and no log is
// read.
func (s *Supervisor) Keep() (out []Kept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.child != nil {
			r.kept.Stderr, err = ports.Duplicate(r.child.stderr)
			if errors.Is(err, os.ErrClosed) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		out = append(out, r.kept)
	}
	s.leaves = true
	for _, r := range s.runs {
		if r.child != nil {
			_ = r.child.stderr.SetReadDeadline(time.Unix(1, 0))
			<-r.child.read
		}
	}
	return out, nil
}

var errReplaced = errors.New("this program is replaced")

// begin starts an Envoy that Keep returns, unless s is nil.
func (s *Supervisor) begin(e *Envoy) (c *child, err error) {
	if s == nil {
		return e.start(nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaves {
		return nil, errReplaced
	}
	if c, err = e.start(s.cfg.Thread); err == nil {
		s.runs[e.cfg.Gateway] = &supervised{e.identity(c.pid), c}
	}
	return c, err
}

func (s *Supervisor) note(gateway string, r *supervised) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		delete(s.runs, gateway)
		return
	}
	s.runs[gateway] = r
}

// adopt returns the earlier program's Envoy, or nil. It ends an Envoy that would now be started
// differently.
func (e *Envoy) adopt() *child {
	k := e.cfg.kept
	if k == nil {
		return nil
	}
	process, err := os.FindProcess(k.PID)
	if err != nil {
		e.log.Error("an Envoy of the earlier program is lost", "pid", k.PID, "reason", err)
		e.cfg.keeper.note(e.cfg.Gateway, nil)
		return nil
	}
	c := e.follow(process, os.NewFile(uintptr(k.Stderr), "log of Envoy"), time.Now())
	now := e.identity(k.PID)
	if why := k.differs(&now); why != "" {
		e.log.Warn("Envoy is replaced, too, because the new penstock starts " + why)
		e.stop(c)
		e.cfg.keeper.note(e.cfg.Gateway, nil)
		return nil
	}
	e.cfg.keeper.note(e.cfg.Gateway, &supervised{now, c})
	return c
}

func (e *Envoy) identity(pid int) Kept {
	return Kept{Gateway: e.cfg.Gateway, PID: pid, Envoy: Binary{e.cfg.Envoy, e.cfg.version},
		Args: hashOf(fmt.Sprintf("%q", e.args())), Bootstrap: hashOf(string(e.cfg.Bootstrap))}
}

func hashOf(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
