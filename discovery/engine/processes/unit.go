package processes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// unit is one process over all its restarts. Its goroutine alone starts and stops it.
type unit struct {
	s     *Supervisor
	base  string        // name of its files without extension
	awake chan struct{} // signals a change of wanted
	done  chan struct{} // closed when run has returned
	files sync.Mutex    // held while the log is rotated or read

	// Only the unit's goroutine uses these fields.
	rec     record
	live    *live     // nil: no process
	broken  bool      // the record could not be read
	lost    bool      // the process ended while no supervisor watched
	next    time.Time // no start before
	failed  bool      // the last write of the record failed
	silence silence   // silence of the running process

	// Guarded by s.mu.
	wanted *Process // nil: not wanted
	keep   bool     // a running process continues, because the wanted one is rejected
	state  State
}

func (s *Supervisor) newUnit(base string) *unit {
	return &unit{s: s, base: base, awake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (u *unit) path(extension string) string { return filepath.Join(u.s.dir, u.base+extension) }

func (u *unit) mark() mark { return mark{token: u.rec.Token, log: u.path(logEnd)} }

func (u *unit) wake() {
	select {
	case u.awake <- struct{}{}:
	default:
	}
}

// restore adopts the process of the record. marked are the processes with its mark.
func (u *unit) restore(marked []found, all processes) {
	r := &u.rec
	switch {
	case u.broken || r.Token != "" && r.PID == 0: // the supervisor was killed during a start
		for _, f := range marked {
			if f.leader {
				if u.live = adopt(f.pid, f.identity); u.live != nil {
					r.PID, r.Identity = f.pid, f.identity
					break
				}
			}
		}
		u.lost = u.live == nil && len(marked) > 0
	case r.Token != "" && r.Boot != boot(): // all processes ended with the machine
		r.Token, r.Failures = "", 0
	case r.Token != "":
		u.live = adopt(r.PID, r.Identity)
		u.lost = u.live == nil
	}
	u.state = State{
		Name: r.Name, Phase: Stopped, Since: time.Now(), Restarts: max(0, r.Starts-1),
		Failures: r.Failures, Reason: r.Reason, LastWords: r.LastWords,
	}
	if u.live == nil {
		return
	}
	u.state.PID, u.state.Hash, u.state.Adopted = u.live.pid, r.Hash, true
	u.state.Phase, u.state.Since = Starting, r.Started
	if r.Served && !r.Any && all.listener(r.Ready, r.PID, u.mark()) == others {
		r.Served = false // its listener is checked again
	}
	if r.Served {
		u.state.Phase, u.state.Since = Running, r.ServedAt
	}
	if !u.broken {
		u.save()
	}
	u.s.scope(u.base, u.live.pid) // an earlier supervisor may have ended before this call
}

// want returns the wanted process, or nil. If leave is true, a running process continues.
func (u *unit) want() (p *Process, leave bool) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	return u.wanted, !u.s.decided || u.keep
}

func (u *unit) set(change func(*State)) {
	u.s.mu.Lock()
	change(&u.state)
	u.s.mu.Unlock()
	u.s.signal()
}

func (u *unit) phase(p Phase) {
	u.set(func(st *State) {
		if st.Phase != p {
			st.Phase, st.Since = p, time.Now()
		}
	})
}

func (u *unit) run() {
	defer close(u.done)
	ctx := u.s.ctx
	for ctx.Err() == nil {
		p, leave := u.want()
		switch {
		case u.live != nil && (leave || p != nil && (p.Keep || p.Hash() == u.rec.Hash)):
			u.renew(p)
			u.attend(ctx, p)
		case u.live != nil:
			if reason, ok := u.stop(ctx); ok {
				u.s.log.Info("engine stopped", "engine", u.rec.Name, "how", reason)
				u.stopped()
			}
		case leave:
			u.sleep(ctx, nil)
		case p == nil:
			if u.forget() {
				return
			}
		case p.Keep:
			u.sleep(ctx, nil)
		case u.lost:
			u.over(p, Waiting, "it ended while no penstock watched it")
		case time.Until(u.next) > 0 && p.Hash() == u.rec.Hash:
			timer := time.NewTimer(time.Until(u.next))
			u.sleep(ctx, timer.C)
			timer.Stop()
		default:
			u.start(*p)
		}
	}
}

func (u *unit) sleep(ctx context.Context, until <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-u.awake:
	case <-until:
	}
}

func (u *unit) renew(p *Process) {
	r := &u.rec
	if p == nil || r.Ready == p.Ready && r.Any == p.AnyListener && r.Startup == p.startup() && r.Grace == p.grace() {
		return
	}
	r.Ready, r.Any, r.Startup, r.Grace = p.Ready, p.AnyListener, p.startup(), p.grace()
	u.save()
}

// attend waits until the process ends, is ready, is not ready in time, or something else is wanted.
func (u *unit) attend(ctx context.Context, p *Process) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ready, taken <-chan struct{}
	var late <-chan time.Time
	if !u.rec.Served && !u.broken { // the readiness URL of a broken record is unknown
		pid, m, url := u.live.pid, u.mark(), u.rec.Ready
		listener := func() owner { return listProcesses().listener(url, pid, m) }
		if u.rec.Any {
			listener = func() owner { return unknown }
		}
		ready, taken = probing(ctx, url, u.s.t.probe, listener)
		timer := time.NewTimer(time.Until(u.rec.Started.Add(u.rec.Startup)))
		defer timer.Stop()
		late = timer.C
	}
	var news <-chan silence
	if u.rec.Served && u.rec.Ready != "" && !u.rec.Any { // with Any, the server's CPU time is unknown
		pid := u.live.pid
		cpu := func() (time.Duration, bool) { return listProcesses().cpu(pid) }
		news = silences(ctx, u.rec.Ready, u.silence, u.s.t, cpu)
	}
	select {
	case <-ctx.Done():
	case <-u.awake:
	case now := <-news:
		u.silent(ctx, p, now)
	case <-u.live.ended:
		reason := u.live.reap()
		u.live = nil
		u.over(p, Waiting, reason)
	case <-ready:
		if !closed(u.live.ended) { // otherwise another process has answered
			u.rec.Served, u.rec.ServedAt, u.rec.Reason = true, time.Now(), ""
			u.save()
			u.set(func(st *State) { st.Phase, st.Since, st.Reason = Running, u.rec.ServedAt, "" })
		}
	case <-taken: // the engine cannot listen there any more
		reason := takenReason(u.rec.Ready)
		if _, ok := u.stop(ctx); ok {
			u.over(p, Waiting, reason)
		}
	case <-late:
		reason := fmt.Sprintf("not ready within %v", u.rec.Startup)
		if _, ok := u.stop(ctx); ok {
			u.over(p, Failed, reason)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// start writes the record before it starts the process.
func (u *unit) start(p Process) {
	u.setAside()
	u.files.Lock()
	_, _ = rotate(u.path(logEnd), u.s.t.logLimit)
	from := size(u.path(logEnd))
	u.files.Unlock()
	failures := u.rec.Failures
	if p.Hash() != u.rec.Hash {
		failures = 0 // they belong to another command
	}
	u.rec = record{
		Name: p.Name, Hash: p.Hash(), Token: rand.Text(), Boot: boot(), Started: time.Now(),
		Ready: p.Ready, Any: p.AnyListener, Startup: p.startup(), Grace: p.grace(), LogFrom: from,
		Starts: u.rec.Starts + 1, Failures: failures, Reason: u.rec.Reason, LastWords: u.rec.LastWords,
	}
	if err := writeRecord(u.path(recordEnd), u.rec); err != nil {
		u.rec.Token = ""
		u.over(&p, Failed, "cannot write its record: "+err.Error())
		return
	}
	live, err := launch(p, u.mark())
	if err != nil {
		u.rec.Token = ""
		u.over(&p, Failed, "cannot start: "+err.Error())
		return
	}
	u.live, u.rec.PID, u.rec.Identity, u.silence = live, live.pid, live.identity, silence{}
	u.save()
	u.s.scope(u.base, live.pid)
	u.set(func(st *State) {
		*st = State{
			Name: p.Name, Phase: Starting, PID: live.pid, Since: u.rec.Started, Restarts: u.rec.Starts - 1,
			Failures: u.rec.Failures, Reason: u.rec.Reason, LastWords: u.rec.LastWords, Hash: u.rec.Hash,
		}
	})
}

// stop sends SIGTERM to the process group, and SIGKILL after the grace; ok is false if the
// supervisor ends before.
func (u *unit) stop(ctx context.Context) (reason string, ok bool) {
	u.phase(Stopping)
	u.live.signal(syscall.SIGTERM)
	kill := time.NewTimer(u.rec.Grace)
	defer kill.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", false
		case <-u.live.ended:
			reason = u.live.reap()
			u.live = nil
			return reason, true
		case <-kill.C:
			if Notable(u.rec.Failures + 1) {
				u.s.log.Warn("engine did not end in time and is killed", "engine", u.rec.Name, "grace", u.rec.Grace)
			}
			u.live.signal(syscall.SIGKILL)
		}
	}
}

func (u *unit) stopped() {
	sweep(u.mark())
	u.setAside()
	u.rec.Token, u.rec.PID, u.rec.Identity, u.rec.Served, u.rec.Failures = "", 0, "", false, 0
	u.next, u.lost = time.Time{}, false
	u.save()
	u.set(func(st *State) {
		*st = State{Name: st.Name, Phase: Stopped, Since: time.Now(), Restarts: st.Restarts, LastWords: st.LastWords}
	})
}

func (u *unit) over(p *Process, phase Phase, reason string) {
	sweep(u.mark())
	words := ""
	if p != nil { // otherwise its secrets are unknown
		u.files.Lock()
		text, whole := tail(u.path(logEnd), u.rec.LogFrom, wordsRead)
		u.files.Unlock()
		words = lastWords(text, whole, p.Secrets)
	}
	if u.rec.Served && time.Since(u.rec.ServedAt) >= u.s.t.well {
		u.rec.Failures = 0
	}
	u.rec.Failures++
	delay, served := u.s.t.delay(u.rec.Failures), u.rec.Served
	u.next, u.lost = time.Now().Add(delay), false
	u.rec.Token, u.rec.PID, u.rec.Identity, u.rec.Served = "", 0, "", false
	u.rec.Reason, u.rec.LastWords = reason, words
	u.setAside()
	u.save()
	if Notable(u.rec.Failures) {
		u.s.log.Warn("engine ended", "engine", u.rec.Name, "reason", reason, "times in a row", u.rec.Failures,
			"next start in", delay)
	}
	u.set(func(st *State) {
		*st = State{
			Name: st.Name, Phase: phase, Since: time.Now(), Restarts: st.Restarts, Reason: reason, LastWords: words,
			Failures: u.rec.Failures, Served: served,
		}
	})
}

// forget removes the record of an unwanted process. It returns false if the process is wanted
// again.
func (u *unit) forget() bool {
	if u.rec.Token != "" || u.lost {
		sweep(u.mark())
	}
	u.setAside()
	if err := os.Remove(u.path(recordEnd)); err != nil && !errors.Is(err, os.ErrNotExist) {
		u.s.log.Error("cannot remove the record of an engine", "file", u.path(recordEnd), "error", err)
	}
	u.rec, u.next, u.lost, u.broken = record{Name: u.rec.Name}, time.Time{}, false, false
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if u.wanted != nil {
		return false
	}
	delete(u.s.units, u.base)
	prune(u.s.dir, func(base string) bool { return u.s.units[base] != nil })
	u.s.signal() // its state is absent from now on
	u.s.settle() // the table has room for another one
	return true
}

// setAside renames an unreadable record, so that a user can read it, and a new one can be written.
func (u *unit) setAside() {
	if u.broken {
		_ = os.Rename(u.path(recordEnd), u.path(recordEnd+brokenEnd))
	}
	u.broken = false
}

// save writes the record. After an error, the token in the former record still identifies the
// process.
func (u *unit) save() {
	err := writeRecord(u.path(recordEnd), u.rec)
	if err != nil && !u.failed {
		u.s.log.Error("cannot write the record of an engine", "file", u.path(recordEnd), "error", err)
	}
	u.failed = err != nil
}
