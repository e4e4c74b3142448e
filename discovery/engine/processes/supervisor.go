package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/statefile"
)

// Supervisor runs the engines of one folder. Its methods are safe for concurrent use.
type Supervisor struct {
	dir  string
	log  *slog.Logger
	t    timings
	lock *os.File

	ctx      context.Context // context of the goroutines
	cancel   context.CancelFunc
	work     sync.WaitGroup
	changed  chan struct{}
	unscoped sync.Once

	mu       sync.Mutex
	units    map[string]*unit // by the name of their files
	decided  bool             // Want or Down was called, so unwanted processes are stopped
	all      []Process        // the wanted set, sorted by name
	down     bool
	closed   bool
	rejected map[string]State // wanted processes that cannot run, by name
}

// Open locks a folder, which it creates if necessary, and adopts the engines that run there until
// Want or Down. It returns a LockedError, or an error of the folder.
func Open(dir string, log *slog.Logger) (*Supervisor, error) { return open(dir, log, production) }

func open(dir string, log *slog.Logger, t timings) (*Supervisor, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("folder of engines: %w", err)
	}
	held, err := lock(dir, t.locked)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Supervisor{
		dir: dir, log: log, t: t, lock: held, ctx: ctx, cancel: cancel,
		changed: make(chan struct{}, 1), units: map[string]*unit{},
	}
	if err := s.restore(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("folder of engines: %w", err), held.Close())
	}
	for _, u := range s.units {
		s.work.Go(u.run)
	}
	s.work.Go(s.rotateLogs)
	return s, nil
}

func (s *Supervisor) restore() error {
	if err := statefile.Sweep(s.dir); err != nil {
		s.log.Warn("cannot remove unfinished files", "folder", s.dir, "error", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var units []*unit
	var marks []mark
	for _, entry := range entries {
		base, ok := strings.CutSuffix(entry.Name(), recordEnd)
		if !ok {
			continue
		}
		if len(units) == maxRecorded {
			s.log.Error("too many records of engines; the others are ignored", "folder", s.dir, "limit", maxRecorded)
			break
		}
		u := s.newUnit(base)
		r, err := readRecord(u.path(recordEnd))
		if errors.Is(err, errPowerCut) {
			_ = os.Remove(u.path(recordEnd))
			continue
		}
		if err != nil {
			u.broken = true
			r = record{Name: base, Grace: defaultGrace}
			s.log.Error("a record of an engine cannot be read; its process, if it runs, is stopped once engines are "+
				"wanted", "file", u.path(recordEnd), "error", err)
		}
		u.rec = r
		units, marks = append(units, u), append(marks, mark{token: r.Token, log: u.path(logEnd)})
	}
	if len(units) == 0 {
		return nil
	}
	marked, all := find(marks), listProcesses()
	for i, u := range units {
		u.restore(marked[i], all)
		s.units[u.base] = u
	}
	return nil
}

// Want replaces the set of wanted processes, and does not wait. It stops others, and restarts
// processes whose command changed. An invalid process is Failed, and a running process of its name
// continues. The first call decides about adopted processes, so read all objects before.
func (s *Supervisor) Want(processes []Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.closed {
		return
	}
	s.decided = true
	s.all = slices.Clone(processes)
	slices.SortStableFunc(s.all, func(a, b Process) int { return strings.Compare(a.Name, b.Name) })
	s.settle()
}

// settle gives each unit its wanted process, and creates units while there is room. It signals only
// changes of States, because consumers call Want after each signal. s.mu is held.
func (s *Supervisor) settle() {
	if s.down || s.closed {
		return
	}
	changed := false
	wanted, rejected := map[string]*Process{}, map[string]State{}
	for i := range s.all {
		p := &s.all[i]
		base := fileName(p.Name)
		if err := acceptable(p, wanted[base]); err != nil {
			rejected[p.Name] = s.reject(p.Name, err)
			continue
		}
		wanted[base] = p
	}
	for i := range s.all {
		p := &s.all[i]
		switch base := fileName(p.Name); {
		case wanted[base] != p || s.units[base] != nil:
		case len(s.units) >= s.t.table:
			rejected[p.Name] = s.reject(p.Name, fmt.Errorf("%d processes are the limit, and so many exist", s.t.table))
		default:
			u := s.newUnit(base)
			u.rec.Name = p.Name
			u.state = State{Name: p.Name, Phase: Stopped, Since: time.Now()}
			u.wanted = p
			s.units[base] = u
			s.work.Go(u.run)
			changed = true
		}
	}
	changed = changed || !maps.Equal(s.rejected, rejected)
	s.rejected = rejected
	for base, u := range s.units {
		p := wanted[base]
		if p != nil && u.state.Name != p.Name { // a broken record has no name
			u.state.Name, changed = p.Name, true
		}
		_, invalid := rejected[u.state.Name]
		keep := p == nil && invalid
		if p != nil && u.wanted != nil && u.keep == keep && reflect.DeepEqual(*p, *u.wanted) {
			continue
		}
		u.wanted, u.keep = p, keep
		u.wake()
	}
	if changed {
		s.signal()
	}
}

// acceptable returns why a process cannot run. other is a wanted process with the same files.
func acceptable(p, other *Process) error {
	switch {
	case p.Name == "" || len(p.Name) > maxName:
		return fmt.Errorf("its name has %d bytes, 1 to %d are allowed", len(p.Name), maxName)
	case other != nil:
		return errors.New("two wanted processes have this name")
	case p.Keep: // no process is started
		return nil
	}
	return p.check()
}

// reject returns the state of a rejected process, with the time of its first rejection. s.mu is
// held.
func (s *Supervisor) reject(name string, why error) State {
	if old, ok := s.rejected[name]; ok && old.Reason == why.Error() {
		return old
	}
	return State{Name: name, Phase: Failed, Since: time.Now(), Reason: why.Error()}
}

// States returns all processes that are wanted or have not ended, sorted by name.
func (s *Supervisor) States() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]State, 0, len(s.units)+len(s.rejected))
	for _, u := range s.units {
		state := u.state
		if r, ok := s.rejected[state.Name]; ok {
			if state.Reason = r.Reason; state.PID == 0 && u.wanted == nil {
				state = r
			}
		}
		states = append(states, state)
	}
	for name, state := range s.rejected {
		if s.units[fileName(name)] == nil {
			states = append(states, state)
		}
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return states
}

// Changed receives one signal after one or more changes of States. It has one consumer.
func (s *Supervisor) Changed() <-chan struct{} { return s.changed }

func (s *Supervisor) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Log returns the path of a process's log, which remains for some time after the process. The older
// part of the log is at the same path with .1.
func (s *Supervisor) Log(name string) string { return LogFile(s.dir, name) }

// LogFile is like Supervisor.Log, for a folder that another process supervises.
func LogFile(dir, name string) string { return filepath.Join(dir, fileName(name)+logEnd) }

// Down stops all processes and waits for their end. Want has no effect afterwards. If ctx ends
// first, Down returns an error with the running processes, which are being stopped until Close.
func (s *Supervisor) Down(ctx context.Context) error {
	s.mu.Lock()
	s.down, s.decided, s.rejected = true, true, nil
	units := make([]*unit, 0, len(s.units))
	for _, u := range s.units {
		u.wanted = nil
		u.wake()
		units = append(units, u)
	}
	s.mu.Unlock()
	var left []string
	for _, u := range units {
		select {
		case <-u.done:
		case <-ctx.Done():
		}
	}
	for _, state := range s.States() {
		left = append(left, fmt.Sprintf("%s (process %d)", state.Name, state.PID))
	}
	if len(left) > 0 {
		why := context.Cause(ctx)
		if why == nil {
			why = errors.New("the supervision was closed")
		}
		return fmt.Errorf("%d engines still run: %s: %w", len(left), strings.Join(left, ", "), why)
	}
	return nil
}

// Close ends the supervision and unlocks the folder. The engines continue.
func (s *Supervisor) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	for _, u := range s.units {
		if u.live != nil {
			u.live.leave()
		}
	}
	_ = s.lock.Close()
}

func (s *Supervisor) rotateLogs() {
	ticker := time.NewTicker(s.t.size)
	defer ticker.Stop()
	failed := map[*unit]bool{}
	for {
		s.mu.Lock()
		units := slices.Collect(maps.Values(s.units))
		s.mu.Unlock()
		failing := map[*unit]bool{}
		for _, u := range units {
			u.files.Lock()
			_, err := rotate(u.path(logEnd), s.t.logLimit)
			u.files.Unlock()
			if err == nil {
				continue
			}
			if failing[u] = true; !failed[u] {
				s.log.Error("cannot rotate the log of an engine", "file", u.path(logEnd), "error", err)
			}
		}
		failed = failing
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
