package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/pki"
	"github.com/penstock-project/penstock/conformance/promises/nameserver"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/soak"
)

type options struct {
	Seed          uint64
	Steps         int
	Rate, Streams int
	Pace          time.Duration // mean time from one change to the next
	Events        int           // number of events in the longest streams
	Drain         time.Duration // drain time of Envoy's listeners; longer than any stream
	Restarts      int           // number of restarts of each control plane
	Envoys        int           // number of Envoys, each connected to two control planes; 0 means one
	Play          []int         // numbers of the steps to run; nil means all
	Early         bool          // end with the first failure
	Soak          time.Duration // duration of a soak, which replaces Steps and Restarts; 0 means no soak
	Up            bool          // penstock up instead of two penstock serve
	Only          []string      // the kinds of changes; empty means all
	Penstock      string
	Envoy         string
	Dir           string // folder for files and logs
	Verbose       io.Writer
	Progress      io.Writer // may be nil
}

type run struct {
	options
	world     *world
	folder    *folder
	remote    *folder
	ports     process.Ports
	authority *pki.Authority
	clients   *clients
	planes    []*plane
	up        *process.Process
	edges     []edge
	picker    *plane
	dns       *nameserver.Server // in a soak, the DNS server for the name of namedFleet
	size      atomic.Int64       // size of the configuration in bytes
	named     int                // number of changes of the answer of dns
	retired   sync.WaitGroup

	mu       sync.Mutex
	failures []failure
	log      []string
	step     int
	stalls   []stall
	faulted  map[string]int
}

type result struct {
	Requests, Streams int64
	Changes           int
	Restarts          int
	Stalls            []stall        // stalls of the machine
	Faults            map[string]int // number of faults in a soak, by name
	Samples           *soak.Samples  // nil without a soak
	Failures          []failure
	Log               []string
	Took              time.Duration
}

func newRun(o options) (*run, error) {
	r := &run{options: o, faulted: map[string]int{}}
	var err error
	if r.authority, err = pki.NewAuthority("zeroloss", time.Now()); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.authority.Certificate)
	r.clients = newClients(o.Rate, o.Streams, o.Events, roots, r.fail)
	if r.folder, err = newFolder(filepath.Join(o.Dir, "config")); err != nil {
		return nil, err
	}
	if r.remote, err = newFolder(filepath.Join(o.Dir, "remote")); err != nil {
		return nil, err
	}
	if o.Soak > 0 {
		if r.dns, err = nameserver.Start(); err != nil {
			return nil, err
		}
		r.resolve()
	}
	return r, r.begin()
}

func (r *run) fail(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Step = r.step
	r.failures = append(r.failures, f)
	if r.Verbose != nil && len(r.failures) <= 200 {
		fmt.Fprintf(r.Verbose, "FAILED %s\n", f)
	}
}

func (r *run) note(format string, args ...any) {
	line := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, line)
	if r.Verbose != nil {
		fmt.Fprintln(r.Verbose, line)
	}
}

func (r *run) stray(s *server, since time.Duration) {
	r.fail(failure{At: time.Now(), What: "stray", Host: s.name,
		Cause: fmt.Sprintf("a request came %s after the server had left the files", since.Round(time.Millisecond))})
}

func (r *run) begin() (err error) {
	w := &world{fleets: map[string]*fleet{}, pools: map[string]*pool{}, services: map[string]string{},
		imports: map[string]*imported{},
		routes:  map[string]*route{}, secrets: map[string]*secret{}}
	w.gateway.secure = map[string]*listener{}
	r.world = w
	for _, port := range []*int{&w.gateway.port, &w.gateway.tlsPort, &w.gateway.extraPort, &w.externalPort} {
		if *port, err = r.ports.Free(); err != nil {
			return err
		}
	}
	w.newSecret = func(host string) *secret {
		pair, _ := r.authority.Issue(pki.Subject{DNS: []string{host}}) // an empty pair fails the first request
		return &secret{host: host, cert: string(pair.Certificate), key: string(pair.Key)}
	}
	made := 0
	w.newServer = func(fleet string) (*server, error) {
		made++
		port, err := r.ports.Free()
		s := newServer(fleet, fmt.Sprintf("%s/%d", fleet, made), port, r.stray)
		if r.dns != nil && fleet == namedFleet {
			s.addresses = append(s.addresses, namedAddresses...)
		}
		return s, err
	}
	for i := range 4 {
		f := &fleet{name: fmt.Sprintf("f%d", i)}
		w.fleets[f.name] = f
		if r.dns != nil && f.name == namedFleet {
			f.host = namedFleet + ".soak.test"
		}
		for range 3 {
			s, err := w.newServer(f.name)
			if err != nil {
				return err
			}
			if err := s.serve(); err != nil {
				return err
			}
			f.servers = append(f.servers, s)
		}
	}
	rng := rand.New(rand.NewPCG(r.Seed, 0))
	for i := range 8 {
		name := fmt.Sprintf("r%d", i)
		x := &route{host: name + ".test", section: "http", port: w.gateway.port, backends: []backend{w.create(rng)}}
		if i >= 6 {
			x.section, x.tls, x.port = "s"+name, true, w.gateway.tlsPort
			w.gateway.secure[x.section] = &listener{host: x.host, secret: "cert-" + name}
			w.secrets["cert-"+name] = w.newSecret(x.host)
		}
		w.routes[name] = x
	}
	// These pools always exist, so that each kind of picker is in use.
	w.pools["ours"] = &pool{fleet: "f1", strategy: "load", body: "None", fallbacks: 2}
	w.pools["external"] = &pool{fleet: externalFleet, strategy: "load", body: "None", fallbacks: 2, external: true}
	w.routes["r0"].backends = []backend{{"pool", "ours", 1}}
	w.routes["r1"].backends = []backend{{"pool", "external", 1}}
	w.collect()
	return nil
}

func (r *run) files() (ours, remote map[string]string) {
	w := r.world
	ours = w.render()
	ours["service-external.yaml"] = object("v1", "Service", "external") +
		"spec:\n  selector: {app: external}\n  ports: [{port: 9002, targetPort: 9002, appProtocol: " +
		"kubernetes.io/h2c}]\n"
	ours["servers-external.yaml"] = fmt.Sprintf(
		"apiVersion: penstock.dev/v1alpha1\nkind: ModelServers\nmetadata: {name: external, labels: {app: "+
			"external}}\nspec:\n  servers: [{address: 127.0.0.1, ports: [%d]}]\n", w.externalPort)
	p := pool{fleet: externalFleet}
	return ours, map[string]string{"pool-f.yaml": p.yaml("f"), "servers-f0.yaml": w.fleets[externalFleet].yaml()}
}

func (r *run) write(rng *rand.Rand) error {
	ours, remote := r.files()
	if _, err := r.remote.update(remote, rng); err != nil {
		return err
	}
	did, err := r.folder.update(ours, rng)
	r.size.Store(length(r.folder.files))
	if len(did) > 0 {
		r.note("        wrote %v", did)
	}
	return err
}

func length(files map[string]string) (n int64) {
	for _, text := range files {
		n += int64(len(text))
	}
	return n
}

func (r *run) play(ctx context.Context) (res result, err error) {
	began := time.Now()
	if err := r.write(rand.New(rand.NewPCG(r.Seed, 0))); err != nil {
		return res, err
	}
	defer func() {
		err = errors.Join(err, r.end())
		r.mu.Lock()
		defer r.mu.Unlock()
		res.Requests, res.Streams = r.clients.sent.Load(), r.clients.streamed.Load()
		res.Stalls, res.Faults = r.stalls, r.faulted
		res.Failures, res.Log, res.Took = r.failures, r.log, time.Since(began)
	}()
	if err := r.processes(ctx); err != nil {
		return res, err
	}
	r.expect()
	if err := r.announce(ctx); err != nil {
		return res, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.clients.run(sending)
	}()
	go r.watch(sending)
	for _, e := range r.edges {
		go r.watchEdge(sending, e)
	}
	if err := r.work(ctx, &res); err != nil {
		stop()
		<-sent
		return res, err
	}
	if err := r.settle(ctx); err != nil {
		return res, err
	}
	stop()
	if r.up != nil {
		// Penstock drains its Envoy before it ends, so requests in flight must complete.
		r.note("SIGTERM to penstock up")
		r.up.Signal(syscall.SIGTERM)
	}
	<-sent
	if r.up == nil {
		return res, r.nothingStale(ctx)
	}
	return res, nil
}

func (r *run) work(ctx context.Context, res *result) (err error) {
	if r.Soak == 0 {
		return r.changes(ctx, slices.Values(r.until(r.Steps)), r.restarts(), res)
	}
	changing, stop := context.WithCancel(ctx)
	defer stop()
	soaked := make(chan error, 1)
	go func() {
		defer stop()
		var err error
		res.Samples, err = r.soak(ctx)
		soaked <- err
	}()
	err = r.changes(ctx, func(yield func(int) bool) {
		for step := 1; changing.Err() == nil && yield(step); step++ {
		}
	}, nil, res)
	return errors.Join(err, <-soaked)
}

func (r *run) changes(ctx context.Context, steps iter.Seq[int], due []restart, res *result) error {
	reported := time.Now()
	for step := range steps {
		r.mu.Lock()
		r.step = step
		over := r.Early && len(r.failures) > 0
		r.mu.Unlock()
		if over {
			return nil
		}
		rng := rand.New(rand.NewPCG(r.Seed, uint64(step)<<32))
		did, err := r.world.next(r.Seed, uint64(step), r.Only)
		if err != nil {
			return err
		}
		r.note("step %d %s", step, did)
		if err := r.quiet(ctx); err != nil {
			return err
		}
		r.expect()
		if err := r.write(rng); err != nil {
			return err
		}
		if err := r.announce(ctx); err != nil {
			return err
		}
		if err := r.endpoints(ctx); err != nil {
			return err
		}
		res.Changes++
		for len(due) > 0 && due[0].step <= step {
			if due[0].step == step { // a lower number is a step that Play omits
				if err := due[0].do(ctx); err != nil {
					return err
				}
				res.Restarts++
			}
			due = due[1:]
		}
		if r.Progress != nil && time.Since(reported) > 15*time.Second {
			reported = time.Now()
			fmt.Fprintf(r.Progress, "zeroloss: %s\n", r.sofar(res))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rng.Int64N(int64(2*r.Pace) + 1))):
		}
	}
	return nil
}

func (r *run) sofar(res *result) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Soak > 0 {
		return fmt.Sprintf("%d changes, faults %v, %d requests, %d failed", res.Changes, r.faulted,
			r.clients.sent.Load(), len(r.failures))
	}
	return fmt.Sprintf("%d of %d changes, %d restarts, %d requests, %d failed", res.Changes, r.Steps, res.Restarts,
		r.clients.sent.Load(), len(r.failures))
}

func (r *run) quiet(ctx context.Context) error {
	for _, t := range r.clients.all() {
		if slices.Contains(r.world.retired, t.host) {
			if err := process.Eventually(ctx, "no request waits at "+t.host, func() error {
				if !t.quiet() {
					return errors.New("a request is waiting")
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) expect() {
	known := map[string]*target{}
	for _, t := range r.clients.all() {
		known[t.host] = t
	}
	for _, name := range sortedKeys(r.world.routes) {
		x := r.world.routes[name]
		t := known[x.host]
		if t == nil {
			t = &target{host: x.host, port: x.port, tls: x.tls, fleets: map[string]time.Time{}}
			r.clients.add(t)
		}
		t.expect(r.world.answers(x), time.Now())
	}
}

func (r *run) announce(ctx context.Context) error {
	for _, t := range r.clients.all() {
		t.mu.Lock()
		begun := t.asked || slices.Contains(r.world.retired, t.host) || !r.served(t.host)
		t.mu.Unlock()
		if begun {
			continue
		}
		if err := process.Eventually(ctx, t.host+" is served", func() error { return r.knock(t) }); err != nil {
			return err
		}
		t.mu.Lock()
		t.asked = true
		t.mu.Unlock()
	}
	return nil
}

// knock opens connections until, most likely, each Envoy has a connection. The kernel distributes
// connections at random, so knock opens twenty more for each further Envoy.
func (r *run) knock(t *target) error {
	for range 1 + 20*max(0, len(r.edges)-1) {
		id := r.clients.ids.Add(1)
		for int(id)%len(r.clients.transports) != freshTransport {
			id = r.clients.ids.Add(1)
		}
		t.mu.Lock()
		t.waiting++
		t.mu.Unlock()
		if err := r.clients.try(t, id, "plain", smallBody, 0, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) served(host string) bool {
	for _, x := range r.world.routes {
		if x.host == host {
			return true
		}
	}
	return false
}

func (r *run) endpoints(ctx context.Context) error {
	for _, s := range r.world.stopped {
		r.retired.Go(func() { s.retire(ctx) })
	}
	if len(r.world.late) > 0 {
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	for _, s := range r.world.late {
		if err := s.serve(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) settle(ctx context.Context) error {
	for _, strict := range []bool{true, false} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
		if strict {
			r.note("only the last configuration may answer from now on")
			for _, t := range r.clients.all() {
				t.strict(time.Now())
			}
		}
	}
	return nil
}
