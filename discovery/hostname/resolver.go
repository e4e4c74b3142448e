package hostname

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// Lookup resolves one name. *net.Resolver implements it, and also reads /etc/hosts.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Store receives Hosts. *store.Store implements it.
type Store interface {
	Apply(ops ...store.Op) (store.Revision, error)
	View() *store.View
}

// Config configures a Resolver.
type Config struct {
	Store    Store
	Lookup   Lookup        // nil: net.DefaultResolver
	Interval time.Duration // pause after a successful lookup of a name; default 30 s
	// Retry is the delay after a name's first failed lookup; it doubles with each further failure.
	// Default 2 s.
	Retry time.Duration
	// First is the timeout of a lookup (default 500 ms). If a lookup exceeds First, the next lookup
	// of the name has Timeout (default 5 s).
	First, Timeout time.Duration
	// StateDir is the folder in which the last addresses are persisted; "": they are not persisted.
	StateDir string
	Log      *slog.Logger // nil: slog.Default
	// OnPanic, if set, receives panics. what names the operation.
	OnPanic func(what string, value any, stack []byte)
}

// Resolver looks up the used names, and stores their addresses in store.Hosts. It is safe for
// concurrent use.
type Resolver struct {
	cfg     Config
	changed chan struct{}

	mu       sync.Mutex // guards the fields below, and is held while Hosts change
	names    map[string]*name
	schedule *schedule
	pending  int // used names without an address and without a finished lookup
	progress chan struct{}

	restored map[string][]string
	onChange func(name string, addresses []string)
	former   former

	persisting sync.Mutex
	state      state
}

func New(cfg Config) (*Resolver, error) {
	if cfg.Store == nil {
		return nil, errors.New("host names: no store given")
	}
	if cfg.Lookup == nil {
		cfg.Lookup = net.DefaultResolver
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&cfg.Interval, 30 * time.Second}, {&cfg.Retry, 2 * time.Second}, {&cfg.First, 500 * time.Millisecond},
		{&cfg.Timeout, 5 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	r := &Resolver{
		cfg: cfg, state: restore(cfg.StateDir, cfg.Log), changed: make(chan struct{}, 1), names: map[string]*name{},
		schedule: newSchedule(), progress: make(chan struct{}),
		former: former{},
	}
	r.restored = r.state.addresses
	return r, nil
}

// OnChange sets the function that is called with the changed addresses of a used name, before they
// are stored. Call it before Run.
func (r *Resolver) OnChange(f func(name string, addresses []string)) { r.onChange = f }

type answer struct {
	name      *name
	addresses []string
	problem   string
	late      bool
}

// Want adds names to the used names, and removes gone names. All are in lower case. It does not
// wait for lookups: until its first lookup ends, a new name has no Host, and a formerly used name
// has its last addresses.
func (r *Resolver) Want(names, gone []string) error {
	if len(names)+len(gone) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	view, now := r.cfg.Store.View(), time.Now()
	var ops []store.Op
	for _, text := range gone {
		if h, known := store.Hosts.Get(view, text); known {
			r.former.keep(text, h.Addresses, now)
		}
		if n := r.names[text]; n != nil {
			n.gone = true
			r.schedule.remove(n)
			delete(r.names, text)
			r.settle(n)
		}
		ops = append(ops, store.Hosts.Delete(text))
	}
	for _, text := range names {
		if r.names[text] != nil {
			continue
		}
		n := &name{text: text, due: now}
		last := r.former.take(text, now)
		if _, known := store.Hosts.Get(view, text); !known && len(last) > 0 {
			ops = append(ops, store.Hosts.Put(&store.Host{ObjectMeta: metav1.ObjectMeta{Name: text}, Addresses: last}))
		} else if !known {
			n.pending = true
			r.pending++
		}
		r.names[text] = n
		r.schedule.add(n)
	}
	r.notify()
	return r.apply(ops)
}

// Settle waits until the first lookup of every used name has ended. It stops waiting when no lookup
// has ended for the duration quiet, or when longest has passed. Then it removes the restored
// addresses of unused names.
func (r *Resolver) Settle(ctx context.Context, quiet, longest time.Duration) error {
	end := time.NewTimer(longest)
	defer end.Stop()
	for {
		r.mu.Lock()
		done, progress := r.pending == 0, r.progress
		r.mu.Unlock()
		if done {
			break
		}
		silence := time.NewTimer(quiet)
		select {
		case <-progress:
			silence.Stop()
			continue
		case <-silence.C:
		case <-end.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		silence.Stop()
		break
	}
	return r.removeUnused()
}

// The caller holds mu.
func (r *Resolver) settle(n *name) {
	if !n.pending {
		return
	}
	n.pending = false
	r.pending--
	close(r.progress)
	r.progress = make(chan struct{})
}

func (r *Resolver) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Run looks up the used names, again and again, until ctx ends.
func (r *Resolver) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	answers := make(chan answer, parallel)
	group.Go(func() error {
		failures := newBatch(reportEvery)
		defer failures.timer.Stop()
		defer r.persist()
		next := time.NewTimer(0)
		defer next.Stop()
		for {
			wait, err := r.guardedTurn(func() (time.Duration, error) {
				return r.turn(ctx, group, answers, failures, next.C)
			})
			if err != nil {
				return err
			}
			next.Reset(wait)
		}
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (r *Resolver) turn(ctx context.Context, group *errgroup.Group, answers chan answer, failures *batch,
	due <-chan time.Time) (time.Duration, error) {
	var good []answer
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-r.changed:
	case <-due:
	case <-failures.timer.C:
		if err := r.save(failures.take()); err != nil {
			return 0, err
		}
		r.persist()
	case a := <-answers:
		good = r.sort(a, answers, failures)
		failures.begin() // so that turn soon persists the new addresses
	}
	if err := r.save(good); err != nil {
		return 0, err
	}
	wait := r.start(ctx, group, answers)
	if wait < 0 {
		wait = r.cfg.Interval
	}
	return wait, nil
}

func (r *Resolver) sort(first answer, more <-chan answer, failures *batch) (good []answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := first; ; {
		n, retry := a.name, a.name.failing()
		r.schedule.ended(retry)
		if !n.gone {
			switch {
			case a.problem == "":
				n.slow, n.failures, n.due = false, 0, time.Now().Add(r.cfg.Interval)
				good = append(good, a)
			case a.late && !retry:
				n.slow, n.due = true, time.Now()
				if n.pending { // names with addresses keep them: the server may be slow
					failures.add(a)
				}
			default:
				n.slow, n.failures = false, n.failures+1
				n.due = time.Now().Add(backoff(min(r.cfg.Retry, r.cfg.Interval), n.failures))
				failures.add(a)
			}
			r.schedule.add(n)
			if a.problem != "" { // save settles the other names after it has stored their addresses
				r.settle(n)
			}
		}
		select {
		case a = <-more:
		default:
			return good
		}
	}
}

// start starts the lookups that are due. It returns the time until the next lookup; negative: a
// running lookup must end first.
func (r *Resolver) start(ctx context.Context, group *errgroup.Group, answers chan<- answer) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		n, wait := r.schedule.next(time.Now())
		if n == nil {
			return wait
		}
		timeout := r.cfg.First
		if n.failing() {
			timeout = r.cfg.Timeout
		}
		group.Go(func() error {
			a := r.guardedLookup(ctx, n.text, timeout)
			a.name = n
			select {
			case answers <- a:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
}

// Resolve looks up names within Config.Timeout and stores all results at once, without Run. It
// fails if ctx ends or the store fails. A name that does not resolve gets a Host with an Error.
func (r *Resolver) Resolve(ctx context.Context, names []string) error {
	answers := make([]answer, len(names))
	within, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	group := errgroup.Group{}
	group.SetLimit(parallel)
	for i, text := range names {
		group.Go(func() error {
			answers[i] = r.guardedLookup(within, text, r.cfg.Timeout)
			answers[i].name = &name{text: text}
			return nil
		})
	}
	_ = group.Wait() // never fails, because lookup errors are in the answers
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.save(answers); err != nil {
		return err
	}
	r.persist()
	return nil
}

const maxAddresses = 256

func (r *Resolver) lookup(ctx context.Context, text string, timeout time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := r.cfg.Lookup.LookupNetIP(ctx, "ip", text)
	if err != nil {
		return answer{problem: why(err), late: ctx.Err() != nil}
	}
	var v4, v6 []netip.Addr
	for _, ip := range found {
		if ip = ip.Unmap().WithZone(""); ip.Is4() {
			v4 = append(v4, ip)
		} else {
			v6 = append(v6, ip)
		}
	}
	used := v4
	if len(v4) == 0 {
		used = v6
	}
	if len(used) == 0 {
		return answer{problem: "the name has no addresses"}
	}
	slices.SortFunc(used, netip.Addr.Compare)
	used = slices.Compact(used)
	var out answer
	for _, ip := range used[:min(len(used), maxAddresses)] {
		out.addresses = append(out.addresses, ip.String())
	}
	slices.Sort(out.addresses)
	return out
}

// why describes the error of a lookup without port numbers, which differ at each lookup.
func why(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return "the DNS server did not answer in time"
	case errors.As(err, &dns):
		return "the DNS server failed"
	}
	return err.Error()
}

func (r *Resolver) apply(ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	if _, err := r.cfg.Store.Apply(ops...); err != nil {
		return fmt.Errorf("host names: %w", err)
	}
	return nil
}
