package usage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	applyEvery   = 10 * time.Second
	applyTimeout = 10 * time.Second
	readTimeout  = 3 * time.Second
	lateAfter    = time.Minute
	hour         = 3600
)

// Config configures a Keeper.
type Config struct {
	// Folder holds the journal, and the SQLite file if URL is nil. "" keeps counts in memory.
	Folder string
	// Process is this process's name in the database.
	Process string
	// URL returns the URL of the PostgreSQL database; nil means SQLite.
	URL func() (string, error)
	// Place returns the pool of an Envoy cluster, to count requests without a pick; may be nil.
	Place func(cluster string) string
	// Late is called while counts have waited for the database for at least lateAfter, and with
	// zero values after they are written; may be nil.
	Late func(age time.Duration, why string)
	Now  func() time.Time
	Log  *slog.Logger
}

// Keeper counts usage. Its methods are safe for concurrent use.
type Keeper struct {
	cfg       Config
	estimates estimates
	series    series

	mu    sync.Mutex
	held  rows
	since time.Time
	first time.Time
	wake  chan struct{}
	open  open

	disk         sync.Mutex // guards journal and journalError
	journal      journal
	journalError error

	apply    sync.Mutex // guards the fields below
	database database

	state   sync.Mutex // guards the fields below
	waiting time.Time  // since when counts wait for the database; zero if none wait
	why     string
}

// New makes a Keeper. It opens no file before the first count.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, held: rows{}, wake: make(chan struct{}, 1)}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	k.journal = journal{folder: filepath.Join(cfg.Folder, "journal"),
		batch: Batch{Process: cfg.Process, Start: cfg.Now().UTC().Format("20060102T150405") + "-" +
			hex.EncodeToString(random[:])}}
	k.database = database{file: File(cfg.Folder), url: cfg.URL}
	return k
}

// Folder returns the Config.Folder in a state folder.
func Folder(stateDir string) string { return filepath.Join(stateDir, "usage") }

// File returns the SQLite file in a Config.Folder.
func File(folder string) string { return filepath.Join(folder, "usage.db") }

// Log counts requests that have ended. It never waits for a disk or a database.
func (k *Keeper) Log(list []accesslog.Used) {
	now := k.cfg.Now()
	begin := now.Unix() - ((now.Unix()%hour)+hour)%hour
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list {
		u := &list[i]
		if u.Unavailable || !k.open.note(u, now) {
			continue
		}
		pool := u.Pool
		if pool == "" && u.Cluster != "" && k.cfg.Place != nil {
			pool = k.cfg.Place(u.Cluster)
		}
		u.Pool = pool
		c := k.estimates.count(u)
		model := u.Model
		if c.Requests > 0 && c.Failed > 0 && model != "" {
			model = Other // a client may have invented the model's name
		}
		key := Key{Hour: begin, Owner: clean(u.Caller), Model: clean(model), Pool: clean(pool)}
		k.held.add(key, c)
		k.series.add(key.Owner, c)
	}
	if len(k.held) == 0 {
		return
	}
	if k.since.IsZero() {
		k.since = now
	}
	if k.first.IsZero() {
		k.first = now
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run writes counts to the journal and the database until ctx ends, and once more at the end.
func (k *Keeper) Run(ctx context.Context) error {
	if k.cfg.Folder == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	var both sync.WaitGroup
	both.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-k.wake:
				k.write()
			}
		}
	})
	both.Go(func() {
		every := time.NewTicker(applyEvery)
		defer every.Stop()
		for {
			k.applyAll(ctx)
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
		}
	})
	both.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	k.applyAll(last)
	k.apply.Lock()
	defer k.apply.Unlock()
	k.database.close()
	return ctx.Err()
}

func (k *Keeper) write() {
	k.disk.Lock()
	defer k.disk.Unlock()
	if k.cfg.Folder == "" || k.journal.full() {
		return
	}
	k.mu.Lock()
	list, since := k.held.sorted(), k.since
	k.held, k.since = rows{}, time.Time{}
	k.mu.Unlock()
	if len(list) == 0 {
		return
	}
	err := k.journal.append(list)
	if err == nil {
		k.journalError = nil
		return
	}
	if k.journalError == nil {
		k.cfg.Log.Error("usage waits in memory, because the state folder takes no rows", "error", err)
	}
	k.journalError = err
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range list {
		k.held.add(r.Key, r.Counts)
	}
	k.since = since
}

// rotate writes the counts in memory, closes the open segment, and returns all closed segments.
// While earlier segments wait, a segment below fullSegment stays open, except if always is true.
func (k *Keeper) rotate(always bool) (list []string, err error) {
	k.write()
	k.disk.Lock()
	defer k.disk.Unlock()
	open := ""
	if k.journal.open != nil {
		open = k.journal.open.Name()
	}
	list, k.journal.closed, err = segments(k.journal.folder, open)
	if err != nil || open == "" || k.journal.size == 0 ||
		!always && len(list) > 0 && k.journal.size < fullSegment {
		return list, errors.Join(err, k.journalError)
	}
	if err := k.journal.close(); err != nil {
		k.cfg.Log.Error("a segment of usage is not synced or compacted", "error", err)
	}
	return append(list, open), k.journalError
}

func (k *Keeper) applyAll(ctx context.Context) error {
	k.apply.Lock()
	defer k.apply.Unlock()
	if k.cfg.Folder == "" {
		return nil
	}
	var err error
	for range 2 { // first the waiting segments, then the open one
		var list []string
		list, err = k.rotate(false)
		for _, path := range list {
			if applied := k.applyOne(ctx, path); applied != nil {
				k.settle(path, applied)
				return applied
			}
		}
	}
	k.settle("", err)
	return err
}

// The caller holds k.apply.
func (k *Keeper) applyOne(ctx context.Context, path string) error {
	b, err := readSegment(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errDamaged): // a kill or a full disk left no first line
		return os.Remove(path)
	case err != nil:
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	if err := k.database.apply(ctx, b); err != nil {
		return withoutURL(err)
	}
	return os.Remove(path)
}

func (k *Keeper) settle(oldest string, err error) {
	var since time.Time
	if info, statErr := os.Stat(oldest); oldest != "" && statErr == nil {
		since = info.ModTime()
	}
	k.mu.Lock()
	if err != nil && !k.since.IsZero() && (since.IsZero() || k.since.Before(since)) {
		since = k.since
	}
	k.mu.Unlock()
	k.state.Lock()
	defer k.state.Unlock()
	late := k.lateness()
	switch {
	case err == nil:
		k.waiting, k.why = time.Time{}, ""
	default:
		// waiting only moves back, so that counts do not look younger after the clock is set back.
		if k.waiting.IsZero() || !since.IsZero() && since.Before(k.waiting) {
			k.waiting = since
		}
		if k.waiting.IsZero() {
			k.waiting = k.cfg.Now()
		}
		if k.why == "" {
			k.cfg.Log.Warn("usage waits for its database", "error", err)
		}
		k.why = err.Error()
	}
	if k.cfg.Late == nil {
		return
	}
	if now := k.lateness(); now >= lateAfter {
		k.cfg.Late(now, k.why)
	} else if late >= lateAfter {
		k.cfg.Late(0, "")
	}
}

// The caller holds k.state.
func (k *Keeper) lateness() time.Duration {
	if k.waiting.IsZero() {
		return 0
	}
	return max(k.cfg.Now().Sub(k.waiting), 0)
}
