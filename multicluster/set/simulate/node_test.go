package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/xds/resource"
)

// drain is how long importers keep a withdrawn export.
const drain = 20 * time.Second

// budget is set.Config.Budget of each node. It is low, so that a flood of exports takes little CPU
// time.
const budget = 800

// pool is a pool as the node's user wrote it.
type pool struct {
	namespace, name string
	exported        bool
	to              []string
	weight, servers int
	generation      int       // of the servers; each has other addresses
	changed         time.Time // when its export last changed
}

// exportedTo reports whether a member may import the pool.
func (p *pool) exportedTo(member string) bool {
	return p.exported && (p.to == nil || slices.Contains(p.to, member))
}

func (p *pool) key() string { return p.namespace + "/" + p.name }

// node is a cluster: its user's objects, its disk, and its processes.
type node struct {
	w        *world
	name     string
	number   int
	disk     *disk
	pools    []*pool
	joined   map[string]v1alpha1.ClusterSetMember
	draining bool
	hostile  time.Time // until then the node sends hostile messages
	floods   bool
	flooded  int
	backup   map[string]*inode

	processes []*process // the running processes; the last is the current process
	started   int
	lost      bool // the node's state was lost, so its stamps may go back
	epoch     uint64
	kept      map[registry.RecordID]registry.Record // saved records
	dropped   map[registry.RecordID]bool
	published map[string]*discoveryResponse // the last response of each topic, for hostile repetition
}

func (n *node) address() string { return "10.0." + strconv.Itoa(n.number) + ".1:9443" }

// process is a process of a node.
type process struct {
	node   *node
	id     string
	mount  *mount
	store  *store.Store
	set    *set.Set
	cancel context.CancelFunc
	done   chan struct{}
	off    atomic.Bool // the power was cut, so the process sends nothing
	alone  bool        // it was replaced, but continues to run

	mu        sync.Mutex
	exports   []export.Export
	resources map[resource.Ref]string
	panicked  string

	watched watched
}

// own returns a node's current process; nil: none runs.
func (n *node) own() *process {
	if len(n.processes) == 0 || n.processes[len(n.processes)-1].alone {
		return nil
	}
	return n.processes[len(n.processes)-1]
}

type board struct{}

func (board) Replace(string, ...report.Report) {}
func (board) Set(string, ...report.Report)     {}
func (board) Remove(string, ...report.Ref)     {}

// start starts a process.
func (n *node) start() *process {
	n.started++
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		node: n, id: fmt.Sprintf("%s.%d", n.name, n.started), mount: &mount{disk: n.disk}, store: store.New(),
		cancel: cancel, done: make(chan struct{}), resources: map[resource.Ref]string{},
	}
	files := set.Files{Disk: p.mount, State: "/state"}
	picker := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n.number), 2}), 9002)
	p.set = set.New(set.Config{
		Store: p.store, Board: board{}, StateDir: files.State, Disk: p.mount,
		Identity: p.identity(files), Authority: files.Authority(), Records: &records{files.Records(), p},
		Listen: func(context.Context) (net.Listener, error) { return listener{n.address()}, nil },
		Server: p.server, Connect: p.connect, Address: n.address(),
		Pickers: []netip.AddrPort{picker}, Cleartext: true, Exports: p.exporting, Drain: drain, Budget: budget,
		Log: slog.New(slog.DiscardHandler), OnPanic: p.onPanic,
	})
	n.processes = append(n.processes, p)
	p.write()
	go func() {
		defer close(p.done)
		var all sync.WaitGroup
		defer all.Wait()
		p.set.Restore(ctx)
		all.Go(func() { p.translate(ctx, picker) })
		all.Go(func() { _ = p.set.Run(ctx) })
	}()
	return p
}

// translate does what a real process does after each change of the store: it translates, and calls
// Set.Follow.
func (p *process) translate(ctx context.Context, picker netip.AddrPort) {
	t := translator.New(translator.Config{
		Controller: "penstock.dev/simulated", AnyController: true, Pickers: []netip.AddrPort{picker},
	})
	sub := p.store.Subscribe()
	defer sub.Close()
	for {
		revisions, view, err := sub.Next(ctx)
		if err != nil {
			return
		}
		c := set.Change{View: view}
		for _, r := range revisions {
			c.Objects = append(c.Objects, r.Changes...)
		}
		c.Output = t.Update(view, c.Objects)
		p.mu.Lock()
		for _, d := range c.Output.Deltas {
			for _, r := range d.Upserts {
				p.resources[r.Ref] = r.Version
			}
			for _, ref := range d.Removes {
				delete(p.resources, ref)
			}
		}
		if len(c.Output.Panics) > 0 {
			p.panicked = fmt.Sprint(c.Output.Panics)
		}
		p.mu.Unlock()
		p.set.Follow(ctx, c)
	}
}

func (p *process) exporting(list []export.Export) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exports = list
}

func (p *process) onPanic(peer string, value any, stack []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.panicked = fmt.Sprintf("a message of %s: %v\n%s", peer, value, stack)
}

// kill ends a process as SIGKILL does. If power is true, it ends the process as a power cut does,
// so peers are not notified.
func (p *process) kill(power bool) {
	p.mount.end()
	if power {
		p.off.Store(true)
		for _, t := range p.node.w.net.transportsOf(p) {
			t.silence(func() bool { return true })
		}
	}
	p.cancel()
	if power {
		return
	}
	for _, t := range p.node.w.net.transportsOf(p) {
		t.reset(t.client != p)
	}
}

// identity implements Config.Identity, and checks that each epoch is higher than the one before,
// unless the disk was restored.
func (p *process) identity(files set.Files) func(context.Context) (string, uint64, error) {
	return func(ctx context.Context) (string, uint64, error) {
		uid, epoch, err := files.Identity(ctx)
		if n := p.node; err == nil && !p.alone {
			if epoch <= n.epoch && !n.rewound() {
				n.w.violated("%s begins epoch %d, and had begun %d", p.id, epoch, n.epoch)
			}
			n.epoch = epoch
		}
		return uid, epoch, err
	}
}

// records implements Config.Records, and checks that a restart loads the saved records or newer
// ones.
type records struct {
	set.Records
	p *process
}

func (r *records) Save(ctx context.Context, changed []registry.Record, gone []registry.RecordID) error {
	err := r.Records.Save(ctx, changed, gone)
	if n := r.p.node; err == nil && !r.p.alone {
		for _, record := range changed {
			n.kept[record.RecordID] = record
			delete(n.dropped, record.RecordID)
		}
		for _, id := range gone {
			delete(n.kept, id)
			n.dropped[id] = true
		}
	}
	return err
}

func (r *records) Load(ctx context.Context) ([]registry.Record, error) {
	list, err := r.Records.Load(ctx)
	if r.p.alone {
		return list, err
	}
	r.p.node.checkLoaded(r.p, list, err)
	return list, err
}

// write writes the objects of a node into the store of a process.
func (p *process) write() {
	wanted, ops := p.node.objects(), []store.Op{}
	for _, stored := range store.InferencePools.All(p.store.View()) {
		if !slices.ContainsFunc(p.node.pools, func(o *pool) bool { return o.key() == store.ID(stored) }) {
			ops = append(ops, store.InferencePools.Delete(store.ID(stored)))
		}
	}
	if _, err := p.store.Apply(append(ops, wanted...)...); err != nil {
		p.node.w.t.Error(err)
	}
}

// touch records that the receivers of all pools changed.
func (n *node) touch() {
	for _, p := range n.pools {
		p.changed = time.Now()
	}
}

// changed applies the user's changes.
func (n *node) changed() {
	if p := n.own(); p != nil {
		p.write()
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// objects returns the user's objects.
func (n *node) objects() (ops []store.Op) {
	clusterSet := &v1alpha1.ClusterSet{ObjectMeta: meta("", "gpus")}
	clusterSet.Spec.Cluster, clusterSet.Spec.Draining = n.name, n.draining
	for _, name := range slices.Sorted(maps.Keys(n.joined)) {
		clusterSet.Spec.Members = append(clusterSet.Spec.Members, n.joined[name])
	}
	gw := &gatewayv1.Gateway{ObjectMeta: meta("team", "gw")}
	gw.Spec.GatewayClassName = "penstock"
	gw.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 8080, Protocol: gatewayv1.HTTPProtocolType}}
	everywhere := addresses.Unrestricted()
	ops = append(ops, store.AddressPolicies.Put(everywhere), store.ClusterSets.Put(clusterSet), store.Gateways.Put(gw))
	for _, name := range []string{"team", "private"} {
		ops = append(ops, store.Namespaces.Put(&corev1.Namespace{ObjectMeta: meta("", name)}))
	}
	for _, name := range sharedPools {
		obj := route("import-"+name, "/import/"+name, "inference.networking.x-k8s.io", "InferencePoolImport", name)
		ops = append(ops, store.HTTPRoutes.Put(obj))
	}
	for _, p := range n.pools {
		obj := &inferencev1.InferencePool{ObjectMeta: meta(p.namespace, p.name)}
		obj.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{
			"app": inferencev1.LabelValue(p.name),
		}
		obj.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
		if p.exported {
			obj.Annotations = map[string]string{
				export.Annotation: "ClusterSet", export.WeightAnnotation: strconv.Itoa(p.weight),
			}
			if p.to != nil {
				obj.Annotations[export.ToAnnotation] = strings.Join(p.to, ",")
			}
		}
		servers := &v1alpha1.ModelServers{ObjectMeta: meta(p.namespace, p.name)}
		servers.Labels = map[string]string{"app": p.name}
		for i := range p.servers {
			address := fmt.Sprintf("10.%d.%d.%d", n.number, p.generation%200, i+1)
			servers.Spec.Servers = append(servers.Spec.Servers, v1alpha1.ModelServer{Address: address})
		}
		ops = append(ops, store.InferencePools.Put(obj), store.ModelServers.Put(servers))
		if p.namespace == "team" {
			r := route("own-"+p.name, "/own/"+p.name, "inference.networking.k8s.io", "InferencePool", p.name)
			ops = append(ops, store.HTTPRoutes.Put(r))
		}
	}
	return ops
}

func route(name, path, group, kind, to string) *gatewayv1.HTTPRoute {
	prefix := gatewayv1.PathMatchPathPrefix
	backend := gatewayv1.HTTPBackendRef{}
	backend.Group, backend.Kind = new(gatewayv1.Group(group)), new(gatewayv1.Kind(kind))
	backend.Name = gatewayv1.ObjectName(to)
	r := &gatewayv1.HTTPRoute{ObjectMeta: meta("team", name)}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{{
		Matches:     []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &prefix, Value: &path}}},
		BackendRefs: []gatewayv1.HTTPBackendRef{backend},
	}}
	return r
}

// member returns a node's entry for other ClusterSets, as `penstock clusters show` prints it.
func (n *node) member() (member v1alpha1.ClusterSetMember, ok bool) {
	raw, err := statefile.Read(&mount{disk: n.disk}, set.MemberFile("/state"))
	if err != nil {
		return member, false
	}
	list, err := set.ReadMembers(n.name, raw, time.Now())
	if err != nil {
		n.w.violated("%s: what others need to make it a member cannot be read: %v", n.name, err)
		return member, false
	}
	member = list[0]
	member.Allow.Namespaces = []string{"team"}
	return member, true
}
