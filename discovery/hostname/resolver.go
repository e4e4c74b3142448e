package hostname

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// Lookup resolves one name. *net.Resolver implements it, and reads /etc/hosts too.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Store has the objects that use names, and receives Hosts. *store.Store implements it.
type Store interface {
	Apply(ops ...store.Op) (store.Revision, error)
	View() *store.View
	Subscribe() *store.Subscription
}

// Config is what a Resolver needs.
type Config struct {
	Store    Store
	Lookup   Lookup        // nil: net.DefaultResolver
	Interval time.Duration // between two lookups of a name; 30 s by default
	Retry    time.Duration // between a failed lookup and the next; 2 s by default
	Timeout  time.Duration // of one lookup; 5 s by default
	// StateDir persists the last good addresses. If empty, nothing is persisted.
	StateDir string
	Log      *slog.Logger // nil: slog.Default
}

// Resolver keeps store.Hosts. See the package's comment.
type Resolver struct {
	cfg   Config
	state state
}

// parallel bounds the number of concurrent lookups.
const parallel = 32

// New makes a Resolver.
func New(cfg Config) (*Resolver, error) {
	if cfg.Store == nil {
		return nil, errors.New("host names: no store given")
	}
	if cfg.Lookup == nil {
		cfg.Lookup = net.DefaultResolver
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 30 * time.Second
	}
	if cfg.Retry <= 0 {
		cfg.Retry = 2 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Resolver{cfg: cfg, state: restore(cfg.StateDir, cfg.Log)}, nil
}

// answer is the result of one lookup.
type answer struct {
	name      string
	addresses []string
	problem   string
}

// ResolveOnce looks up every name in use and stores all answers in one batch. It returns the error of ctx or of the store.
// A name that does not resolve becomes a Host with an Error.
func (r *Resolver) ResolveOnce(ctx context.Context) error {
	names := namesInUse(r.cfg.Store.View())
	answers := make([]answer, len(names))
	group, lookups := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, name := range names {
		group.Go(func() error {
			answers[i] = r.lookup(lookups, name)
			return nil
		})
	}
	_ = group.Wait() // lookup errors are in the answers
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.save(answers)
}

// Run follows the store until its context ends.
func (r *Resolver) Run(ctx context.Context) error {
	sub := r.cfg.Store.Subscribe()
	defer sub.Close()
	group, ctx := errgroup.WithContext(ctx)
	changed := make(chan struct{}, 1)
	group.Go(func() error { return notify(ctx, sub, changed) })
	group.Go(func() error { return r.follow(ctx, changed) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// notify sends to changed after a revision that may change which names are in use.
func notify(ctx context.Context, sub *store.Subscription, changed chan<- struct{}) error {
	for {
		revisions, _, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, rev := range revisions {
			if !slices.ContainsFunc(rev.Changes, func(c store.Change) bool { return slices.Contains(usingTables(), c.Table) }) {
				continue
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
}

// follow looks up new names at once and known ones when they are due. A slow lookup delays no other name.
func (r *Resolver) follow(ctx context.Context, changed <-chan struct{}) error {
	group, ctx := errgroup.WithContext(ctx)
	free := make(chan struct{}, parallel)
	answers := make(chan answer, parallel)
	due := map[string]time.Time{} // names in use, and the time of their next lookup; zero while one runs
	next := time.NewTimer(0)
	defer next.Stop()
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
				if err := r.save(nil); err != nil {
					return err
				}
			case <-next.C:
			case a := <-answers:
				batch := []answer{a}
				for more := true; more; {
					select {
					case b := <-answers:
						batch = append(batch, b)
					default:
						more = false
					}
				}
				for _, a := range batch {
					due[a.name] = time.Now().Add(r.pause(a))
				}
				if err := r.save(batch); err != nil {
					return err
				}
			}
			for _, name := range dueNames(due, namesInUse(r.cfg.Store.View())) {
				due[name] = time.Time{}
				group.Go(func() error {
					select {
					case free <- struct{}{}:
					case <-ctx.Done():
						return ctx.Err()
					}
					a := r.lookup(ctx, name)
					<-free
					select {
					case answers <- a:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}
			next.Reset(untilNext(due, r.cfg.Interval))
		}
	})
	return group.Wait()
}

func (r *Resolver) pause(a answer) time.Duration {
	if a.problem != "" {
		return min(r.cfg.Retry, r.cfg.Interval)
	}
	return r.cfg.Interval
}

// dueNames removes names that are no longer in use from due, and returns those in use that are due.
func dueNames(due map[string]time.Time, used []string) (names []string) {
	maps.DeleteFunc(due, func(name string, at time.Time) bool {
		_, inUse := slices.BinarySearch(used, name)
		return !inUse && !at.IsZero()
	})
	now := time.Now()
	for _, name := range used {
		if at, known := due[name]; !known || !at.IsZero() && !now.Before(at) {
			names = append(names, name)
		}
	}
	return names
}

func untilNext(due map[string]time.Time, longest time.Duration) time.Duration {
	next := longest
	for _, at := range due {
		if !at.IsZero() {
			next = min(next, max(0, time.Until(at)))
		}
	}
	return next
}

func (r *Resolver) lookup(ctx context.Context, name string) answer {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	found, err := r.cfg.Lookup.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return answer{name: name, problem: why(err)}
	}
	var v4, v6 []string
	for _, ip := range found {
		if ip = ip.Unmap().WithZone(""); ip.Is4() {
			v4 = append(v4, ip.String())
		} else {
			v6 = append(v6, ip.String())
		}
	}
	addresses := v4
	if len(v4) == 0 {
		addresses = v6
	}
	if len(addresses) == 0 {
		return answer{name: name, problem: "the name has no addresses"}
	}
	slices.Sort(addresses)
	return answer{name: name, addresses: slices.Compact(addresses)}
}

// why describes a failed lookup in words that are the same for the same failure. The error itself contains port numbers,
// and each new text would change the Host.
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

// save stores answers for names that are still in use, and removes Hosts of names that are not.
func (r *Resolver) save(answers []answer) error {
	view := r.cfg.Store.View()
	used := namesInUse(view)
	var ops []store.Op
	for _, h := range store.Hosts.All(view) {
		if _, inUse := slices.BinarySearch(used, h.Name); !inUse {
			ops = append(ops, store.Hosts.Delete(h.Name))
		}
	}
	for _, a := range answers {
		if _, inUse := slices.BinarySearch(used, a.name); !inUse {
			continue
		}
		host := &store.Host{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Addresses: a.addresses, Error: a.problem}
		before, known := store.Hosts.Get(view, a.name)
		switch {
		case a.problem != "" && known:
			host.Addresses = before.Addresses
		case a.problem != "":
			host.Addresses = r.state.addresses[a.name]
		}
		if a.problem != "" && (!known || before.Error == "") {
			r.cfg.Log.Warn("host name does not resolve", "host", a.name, "error", a.problem, "kept", len(host.Addresses))
		}
		ops = append(ops, store.Hosts.Put(host))
	}
	if len(ops) == 0 {
		return nil
	}
	if _, err := r.cfg.Store.Apply(ops...); err != nil {
		return fmt.Errorf("host names: %w", err)
	}
	// Serving does not depend on the state; the next answers write it again.
	r.state.outcome.Log(r.cfg.Log, r.state.path, "addresses of host names that do not resolve then", r.state.persist(r.cfg.Store.View()))
	return nil
}
