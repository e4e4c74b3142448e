package hub

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/leader"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/hub/decide"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/translator/addresses"
)

// LeaseName is the name of the Lease that elects a leader among the hubs of a management cluster.
const LeaseName = "penstock-hub"

const (
	// defaultMemory is the default of Config.Memory, and the limit that the chart sets.
	defaultMemory = 512 << 20
	// Members' objects may take 1/budgetPart of the memory. The process then uses half of it.
	budgetPart    = 5
	checkInterval = 5 * time.Second
)

// Config configures a Hub.
type Config struct {
	// REST is the client configuration for the management cluster, which has the ClusterSet; nil:
	// the ClusterSet is in the files Paths.
	REST *rest.Config
	// Namespace is the Lease's namespace. Identity is this process's name.
	Namespace, Identity string
	// Paths are the files with the ClusterSet, if REST is nil.
	Paths []string
	// StateDir is the folder for this hub's identity and the last valid ClusterSet.
	StateDir string
	// Kubeconfigs is the folder of members' kubeconfigs. Providers is the file of credential
	// providers for ClusterProfiles. Disk reads them.
	Kubeconfigs, Providers string
	Disk                   *filesystem.Disk
	// TakeOver makes this hub adopt imports that another hub wrote.
	TakeOver bool
	// Memory is the memory limit of the process in bytes; 0: 512 MiB. A fifth of it is for members'
	// objects.
	Memory int64
	// Drain is how long requests to a withdrawn export may continue; 0: 10 minutes.
	Drain time.Duration
	Log   *slog.Logger
}

// Hub is the process penstock hub. New makes one.
type Hub struct {
	cfg        Config
	log        *slog.Logger
	store      *store.Store
	management dynamic.Interface
	budget     *kube.Budget
	source     *kube.Source // nil: the ClusterSet is in files
	unwritten  bool

	// The following fields are set while this process leads.
	uid      string
	epoch    uint64
	out      *decide.Hub
	clusters map[string]*cluster // h.mu is held to read it in callbacks

	files atomic.Pointer[file.Reader]

	mu       sync.Mutex
	leading  bool
	set      string
	peers    []string
	mistakes map[string]*mistake
	findings map[string]*mistake
	claims   map[string]claim
}

// New makes a hub that is idle until Run.
func New(c Config) (*Hub, error) {
	c.Log = slog.New(boundedLog{c.Log.Handler()})
	h := &Hub{cfg: c, log: c.Log, store: store.New(), mistakes: map[string]*mistake{}, claims: map[string]claim{},
		budget: kube.NewBudget(cmp.Or(c.Memory, defaultMemory) / budgetPart)}
	if c.REST != nil {
		var err error
		if h.management, err = dynamic.NewForConfig(c.REST); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Stuck returns why the hub must be restarted; "": no restart is needed.
func (h *Hub) Stuck() string {
	if files := h.files.Load(); files != nil && files.Stuck() {
		return file.StuckMessage
	}
	if path := h.cfg.Disk.Stuck(); path != "" {
		return filesystem.StuckMessage(path)
	}
	return ""
}

// Run runs the hub until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	if h.cfg.REST == nil {
		return h.runFiles(ctx)
	}
	source, err := kube.New(kube.Config{REST: h.cfg.REST, Store: h.store,
		Only: []kube.Kind{{Group: v1alpha1.Group, Kind: store.ClusterSets.Kind(), Required: true}}, Log: h.log})
	if err != nil {
		return err
	}
	h.source = source
	elector, err := leader.New(leader.Config{REST: h.cfg.REST, Namespace: h.cfg.Namespace, Name: LeaseName,
		Identity: h.cfg.Identity, Log: h.log})
	if err != nil {
		return err
	}
	who, err := set.NewKubernetes(set.KubernetesConfig{
		REST: h.cfg.REST, Namespace: h.cfg.Namespace, Lease: LeaseName, Store: h.store, Log: h.log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Run(ctx) })
	group.Go(func() error {
		if err := source.Synced(ctx); err != nil {
			return err
		}
		return elector.Run(ctx, func(ctx context.Context) error { return h.lead(ctx, who.Identity) })
	})
	return group.Wait()
}

func (h *Hub) runFiles(ctx context.Context) error {
	files, err := file.New(file.Config{Paths: h.cfg.Paths, Store: h.store, StateDir: h.cfg.StateDir, Log: h.log,
		Report: h.reported})
	if err != nil {
		return err
	}
	h.files.Store(files)
	if err := files.Load(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return files.Run(ctx) })
	group.Go(func() error { return h.lead(ctx, set.OnDisk(h.cfg.StateDir).Identity) })
	return group.Wait()
}

func (h *Hub) lead(ctx context.Context, identity func(context.Context) (string, uint64, error)) error {
	uid, epoch, err := identity(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	h.uid, h.epoch, h.clusters = uid, epoch, map[string]*cluster{}
	clear(h.mistakes)
	clear(h.claims)
	h.mu.Unlock()
	out := decide.New(decide.Config{Drain: h.cfg.Drain, Never: never,
		Imports: func(member string, pools []objectid.Pool) {
			if c := h.at(member); c != nil {
				if objects, _ := c.writers(); objects != nil {
					objects.Enqueue(pools...)
				}
			}
		},
		Exports: func(member string, pools []objectid.Pool) {
			if c := h.at(member); c != nil {
				if _, exports := c.writers(); exports != nil {
					exports.enqueue(pools...)
				}
			}
		},
		Waited: func() {
			for _, c := range h.all() {
				if objects, _ := c.writers(); objects != nil {
					objects.EnqueueAll()
				}
			}
		}})
	h.mu.Lock()
	h.out, h.leading = out, true
	h.mu.Unlock()
	h.log.Info("this hub writes the imports of its members", "hub", uid, "epoch", epoch)
	defer func() {
		h.mu.Lock()
		h.leading = false
		h.mu.Unlock()
		for _, c := range h.all() {
			c.end()
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.out.Run(ctx) })
	group.Go(func() error { return h.follow(ctx) })
	return group.Wait()
}

func (h *Hub) at(member string) *cluster {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clusters[member]
}

func (h *Hub) all() []*cluster {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.clusters))
}

func (h *Hub) follow(ctx context.Context) error {
	sub := h.store.Subscribe()
	defer sub.Close()
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		_, view := sub.Pending()
		clusterSet := set.Selected(view)
		h.adopt(ctx, clusterSet)
		h.observed(ctx, clusterSet)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sub.Ready():
		case <-tick.C:
		}
	}
}

// adopt applies a ClusterSet. nil: the ClusterSet was deleted, and the members stay.
func (h *Hub) adopt(ctx context.Context, clusterSet *v1alpha1.ClusterSet) {
	h.mu.Lock()
	had := h.set
	if clusterSet != nil {
		h.set = clusterSet.Name
	}
	h.mu.Unlock()
	if clusterSet == nil {
		missing := &mistake{"ClusterSet", "no ClusterSet exists, so this hub has no members",
			"write one with members that have a kubeconfig or a clusterProfile"}
		if had != "" {
			missing = &mistake{"ClusterSet " + had, "it does not exist any more, and its members stay as they are",
				"write it again, or end the hub"}
		}
		h.note("", missing)
		return
	}
	names, wanted := h.wanted(clusterSet)
	h.mu.Lock()
	now := maps.Clone(h.clusters)
	h.mu.Unlock()
	for name, c := range now {
		if wanted[name] == nil {
			c.end()
			delete(now, name)
			h.forget(name)
		}
	}
	var list []decide.Member
	var begin []*cluster
	for _, name := range names {
		m, c := wanted[name], now[name]
		at, bad := h.access(ctx, clusterSet.Name, m)
		if bad != nil {
			if c == nil { // it stays a member, so other members keep its exports
				c = h.newCluster(name, closed)
				now[name] = c
			}
			if c.done == closed {
				h.note(name, bad)
			} else {
				h.note(name+newest, bad)
			}
		} else if h.note(name+newest, nil); c == nil || c.key != at.key || c.anew.Load() {
			if c != nil {
				c.end()
				h.forget(name)
			}
			// The store is new, because the member's old store may have objects of another cluster.
			c = h.newCluster(name, make(chan struct{}))
			c.key, c.rest = at.key, at.rest
			now[name], begin = c, append(begin, c)
		}
		others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		c.mu.Lock()
		same := reflect.DeepEqual(&c.config, m) && slices.Equal(c.others, others)
		c.config, c.others, c.create = *deepcopy.Of(m), others, clusterSet.Spec.CreateNamespaces
		c.mu.Unlock()
		if !same {
			c.decideAgain()
		}
		list = append(list, c.member(m))
	}
	h.mu.Lock()
	h.clusters = now
	h.mu.Unlock()
	h.out.SetMembers(list, clusterSet.Spec.Imports == v1alpha1.ImportAll)
	for _, c := range begin {
		var running context.Context
		running, c.stop = context.WithCancel(ctx)
		go c.run(running)
	}
}

// wanted returns the members of a ClusterSet by name. Of two members with one name, it returns the
// first.
func (h *Hub) wanted(clusterSet *v1alpha1.ClusterSet) (names []string, wanted map[string]*v1alpha1.ClusterSetMember) {
	wanted = map[string]*v1alpha1.ClusterSetMember{}
	taken := map[string]bool{}
	odd := map[string]*mistake{}
	var peers []string
	for i := range clusterSet.Spec.Members {
		m := &clusterSet.Spec.Members[i]
		switch {
		case taken[m.Name]:
			odd[m.Name+again] = &mistake{field(m, "name"), "two members have this name, and the first counts",
				"give the second one a name of its own"}
		case m.Peer == nil:
			names, wanted[m.Name] = append(names, m.Name), m
		default:
			peers = append(peers, m.Name)
			if m.Draining {
				odd[m.Name+undrained] = &mistake{field(m, "draining"),
					"it has no effect on a member that has a peer: the others continue to send it requests",
					"run `penstock clusters drain` there, and remove the field"}
			}
		}
		taken[m.Name] = true
	}
	h.adoptPeers(clusterSet, peers, len(names) == 0)
	h.mu.Lock()
	for key := range h.mistakes {
		if (strings.HasSuffix(key, again) || strings.HasSuffix(key, undrained)) && odd[key] == nil {
			odd[key] = nil
		}
	}
	h.mu.Unlock()
	for key, m := range odd {
		h.note(key, m)
	}
	return names, wanted
}

func (h *Hub) adoptPeers(clusterSet *v1alpha1.ClusterSet, peers []string, alone bool) {
	h.mu.Lock()
	same := slices.Equal(h.peers, peers)
	h.peers = peers
	h.mu.Unlock()
	if !same && len(peers) > 0 {
		h.log.Info("the hub ignores members that have a peer: Penstocks exchange exports with them", "members", peers)
	}
	var useless *mistake
	if alone && len(peers) > 0 {
		useless = &mistake{"ClusterSet " + clusterSet.Name + " spec.members",
			"each member has a peer, so this hub reads and writes no cluster, and it relays nothing between them",
			"join these clusters to each other with `penstock clusters join`, " +
				"or write kubeconfig or clusterProfile in place of peer"}
	}
	h.note("", useless)
}

// Further mistakes of a member have the key of its name and one of these texts in Hub.mistakes.
const (
	again     = ", a second time"
	undrained = ", which drains itself"
	partly    = ", of which objects are left out"
	unfit     = ", whose exports are not all fit for an import"
	newest    = ", as it is described now"
	twin      = ", which may be another member, too"
)

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (h *Hub) newCluster(name string, done chan struct{}) *cluster {
	return &cluster{hub: h, name: name, store: store.New(), again: make(chan struct{}, 1), stop: func() {}, done: done}
}

func (c *cluster) end() {
	c.stop()
	<-c.done
}

func (h *Hub) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.claims, name)
	for _, about := range []string{"", newest, partly, unfit, twin} {
		delete(h.mistakes, name+about)
	}
}

func never(ip netip.Addr) string {
	var none addresses.Ranges
	return none.Never(ip)
}
