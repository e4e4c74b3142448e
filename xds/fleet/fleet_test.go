package fleet_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

func TestAGatewayGetsItsObjectsAndIsProgrammedOnceItsProxiesAreReached(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.condition("Programmed", "AddressNotAssigned")
	r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
	r.condition("Programmed", "Pending")
	r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 1 })
	r.condition("", "")
	if got := r.board.get("edge").Addresses; !slices.Equal(got, []string{"192.0.2.1"}) {
		t.Errorf("addresses %v", got)
	}
}

func TestARolloutThatIsStuckIsSaidOfTheGatewayThatGoesOnBeingServed(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
	r.cluster.edit("Deployment", func(o *apply.Object) {
		o.Available, o.Replicas, o.Stuck = 1, 2, "ProgressDeadlineExceeded: ReplicaSet has timed out progressing."
	})
	r.condition(fleet.ConditionRolledOut, "Stuck")
	if said := r.board.get("edge").Conditions[0].Message; !strings.Contains(said, "1 of 2 proxies") || !strings.Contains(said, "Deployment edge-penstock: ProgressDeadlineExceeded") {
		t.Errorf("said: %s", said)
	}
	r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 0 })
	r.until("it is said why no proxy is ready", func() bool {
		said := r.board.get("edge").Conditions
		return len(said) == 2 && strings.Contains(said[0].Message, "no proxy is ready: ProgressDeadlineExceeded")
	})
	r.cluster.edit("Deployment", func(o *apply.Object) { o.Available, o.Stuck = 2, "" })
	r.condition("", "")
}

func TestWhatIsAsItShouldBeIsNotWrittenAgain(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.settled()
	before := r.cluster.written()
	r.set() // as after a revision that is about something else
	r.fleets.Refresh()
	r.settled()
	r.restart()
	r.settled()
	if now := r.cluster.written(); now != before {
		t.Errorf("%d writes for nothing", now-before)
	}
	r.cluster.edit("Deployment", func(o *apply.Object) { o.Mark = "edited by somebody" })
	r.until("the Deployment is put right", func() bool { return r.cluster.written() == before+1 })
	r.cluster.remove("Service")
	r.until("the Service is back", func() bool { return r.cluster.written() == before+2 })
}

func TestAChangeOfAListenerWritesTheServiceOnly(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.settled()
	before := r.cluster.written()
	r.bound = []render.Port{{Number: 8443, Name: "https"}} // a ListenerSet's
	r.set()
	r.until("a write", func() bool { return r.cluster.written() > before })
	r.settled()
	if got := r.cluster.writes[before:]; !slices.Equal(got, []string{"Service"}) {
		t.Errorf("written: %v", got)
	}
}

func TestProxiesEndOnlyWhenTheirGatewayIsSurelyNotOurs(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.condition("Programmed", "AddressNotAssigned")
	r.spec = nil // not accepted: a lost EnvoyFleet, say
	r.set()
	r.settled()
	r.condition("", "") // the real reason is not ours to say, nor to hide
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.apply(store.GatewayClasses.Delete("penstock"))
	r.names = nil // so the Gateway is not ours at the moment
	r.set()
	r.settled()
	said := r.board.get("edge").Conditions
	if len(said) != 2 || said[0].Type != "Accepted" || said[0].Status != report.False || !strings.Contains(said[1].Message, "GatewayClass penstock does not exist") {
		t.Errorf("of a Gateway whose class is gone is said: %+v", said)
	}
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.apply(store.GatewayClasses.Put(&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "example.com/other"}}))
	r.gateway("edge", "other")
	r.names = nil
	r.set()
	r.expect()
	r.until("nothing is said of it", func() bool { return len(r.board.get("edge").Conditions) == 0 })
}

func TestNothingIsDeletedBeforeTheGatewaysAreKnown(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	other := fleet.New(r.config())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = other.Run(ctx) }()
	other.Changed(apply.Ref{Kind: "Service", Namespace: "default", Name: "edge-penstock"})
	cancel()
	<-done
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
}

func TestAnExternalFleetHasNoObjectsAndItsOwnAddresses(t *testing.T) {
	r := newRig(t)
	r.spec = &v1alpha1.EnvoyFleetSpec{Autoscaling: &v1alpha1.FleetAutoscaling{MaxReplicas: 3}}
	r.gateway("edge", "penstock")
	r.expect("ConfigMap", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "Service", "ServiceAccount")
	r.spec = &v1alpha1.EnvoyFleetSpec{Replicas: new(int32)}
	r.set()
	r.expect("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount")
	r.spec = &v1alpha1.EnvoyFleetSpec{Mode: v1alpha1.FleetExternal, External: &v1alpha1.FleetExternalSpec{Addresses: []string{"edge.example"}}}
	r.set()
	r.expect()
	r.until("its addresses", func() bool { return slices.Equal(r.board.get("edge").Addresses, []string{"edge.example"}) })
}

func TestAnExternalAddressThatIsNoneIsSaidAndLeftOut(t *testing.T) {
	r := newRig(t)
	r.spec = &v1alpha1.EnvoyFleetSpec{Mode: v1alpha1.FleetExternal, External: &v1alpha1.FleetExternalSpec{Addresses: []string{"not an address!", "edge.example", "fe80::1%eth0", "2001:db8::1"}}}
	r.gateway("edge", "penstock")
	r.condition("Accepted", "InvalidParameters")
	if got := r.board.get("edge").Addresses; !slices.Equal(got, []string{"edge.example", "2001:db8::1"}) {
		t.Errorf("addresses %v", got)
	}
}

func TestAFleetThatWouldRefuseEverythingDoesNotReplaceTheOneThatServes(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	r.expect("Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	r.settled()
	before := r.cluster.written()
	limit := func(text string) {
		r.spec = &v1alpha1.EnvoyFleetSpec{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}}}
		r.set()
	}
	limit("1Mi")
	r.condition("Accepted", "InvalidParameters")
	if n := r.cluster.written(); n != before {
		t.Errorf("%d writes", n-before)
	}
	limit("64Mi")
	r.until("the Deployment is written", func() bool { return r.cluster.written() > before })
}

func TestAnAddressThatTheGatewayDoesNotGetIsSaid(t *testing.T) {
	r := newRig(t)
	r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "192.0.2.1"}, {Value: "192.0.2.2"}}
	r.gateway("edge", "penstock")
	r.expect("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount")
	r.cluster.edit("Service", func(o *apply.Object) { o.External = []string{"192.0.2.2"} })
	r.condition("Programmed", "AddressNotUsable")
	r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
	r.condition("Programmed", "Pending")
}

func TestAGatewayDoesNotTakeAnAddressThatNobodyAllowedIt(t *testing.T) {
	for _, typ := range []corev1.ServiceType{"", corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP} {
		t.Run(string(typ), func(t *testing.T) {
			r := newRig(t)
			r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{Type: typ}}
			r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "192.0.2.1"}, {Value: "192.0.2.2"}, {Value: "10.96.0.10"}, {Value: "::ffff:8.8.8.8"}}
			r.gateway("edge", "penstock")
			r.expect("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount")
			r.cluster.edit("Service", func(o *apply.Object) {
				o.Type, o.Balancer, o.ClusterIPs, o.External = "LoadBalancer", []string{"192.0.2.1"}, []string{"192.0.2.1"}, []string{"192.0.2.1", "192.0.2.2"}
			})
			r.until("it is said what to do", func() bool {
				said := r.board.get("edge").Conditions
				return len(said) == 1 && said[0].Reason == "AddressNotUsable" &&
					strings.HasPrefix(said[0].Message, "not allowed: 10.96.0.10, ::ffff:8.8.8.8; remove it") && strings.Contains(said[0].Message, "--external-ips")
			})
			gw, _ := store.Gateways.Get(r.store.View(), "default/edge")
			own, external, refused := render.Assign(gw, r.spec, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("::/0")})
			if (own == "192.0.2.1") != (typ != corev1.ServiceTypeNodePort) || external[len(external)-1] != "192.0.2.2" || len(refused) != 2 {
				t.Errorf("own %q, taken by nodes %v, refused %v", own, external, refused)
			}
		})
	}
}

func TestWhatKubernetesLetsNobodyChangeOfAServiceIsSaidWithWhatToDo(t *testing.T) {
	r := newRig(t)
	said := func(typ, reason, text string) {
		t.Helper()
		r.condition(typ, reason)
		if got := r.board.get("edge").Conditions[0].Message; got != text {
			t.Errorf("said: %s\nwant: %s", got, text)
		}
	}
	const anew = "delete the Service, which is then made anew: kubectl delete service --namespace default edge-penstock"
	class := "example.com/nlb"
	r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{LoadBalancerClass: &class}}
	r.gateway("edge", "penstock")
	r.expect("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount")
	r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
	r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 1 })
	r.condition("", "")
	r.spec = &v1alpha1.EnvoyFleetSpec{Replicas: new(int32(3))}
	r.set()
	said("Accepted", "InvalidParameters", "the EnvoyFleet's spec.service.loadBalancerClass: Service default/edge-penstock has example.com/nlb, which Kubernetes lets nobody change; "+
		"write example.com/nlb again, or, for another load balancer and perhaps another address, "+anew)
	r.cluster.remove("Service")
	r.condition("Programmed", "AddressNotAssigned")

	r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{Type: corev1.ServiceTypeClusterIP}}
	r.set()
	r.until("a cluster IP", func() bool { return r.cluster.typed() == corev1.ServiceTypeClusterIP })
	r.cluster.edit("Service", func(o *apply.Object) { o.ClusterIPs = []string{"10.96.0.9"} })
	r.condition("", "")
	r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "10.96.0.50"}}
	r.gateway("edge", "penstock")
	said("Programmed", "AddressNotUsable", "spec.addresses: Service default/edge-penstock has the cluster IP 10.96.0.9, which Kubernetes lets nobody change; to have 10.96.0.50, "+anew)
}

func TestBehindANodePortTheAddressesAreThoseOfNodesWithProxies(t *testing.T) {
	r := newRig(t)
	r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{Type: corev1.ServiceTypeNodePort}}
	r.gateway("edge", "penstock")
	r.expect("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount")
	r.cluster.edit("Service", func(o *apply.Object) { o.ClusterIPs = []string{"10.96.0.9"} })
	r.condition("Programmed", "Pending") // and not that it has no address: there is no proxy that could be anywhere
	r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "192.0.2.9"}}
	r.gateway("edge", "penstock")
	r.condition("Programmed", "AddressNotUsable")
	r.cluster.edit("Service", func(o *apply.Object) { o.External = []string{"192.0.2.9"} })
	r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 2 })
	r.cluster.edit("Service", func(o *apply.Object) { o.Nodes = []string{"198.51.100.1", "198.51.100.2", "2001:db8::1"} })
	r.condition("", "")
	// The cluster IP is nothing to those outside, and the Service has none of IPv6.
	if got, want := r.board.get("edge").Addresses, []string{"192.0.2.9", "198.51.100.1", "198.51.100.2"}; !slices.Equal(got, want) {
		t.Errorf("addresses %v, want %v", got, want)
	}
	r.cluster.edit("Service", func(o *apply.Object) {
		o.Nodes = nil
		for i := range 40 {
			o.Nodes = append(o.Nodes, fmt.Sprintf("198.51.100.%d", 10+i))
		}
	})
	r.until("as many as a status holds", func() bool { return len(r.board.get("edge").Addresses) == 16 })
}

// foreign is how soon it is looked again whether what is in the way is gone.
const foreign = 200 * time.Millisecond

func TestAnObjectOfSomebodyElseIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.cluster.foreign = "Service"
	r.gateway("edge", "penstock")
	r.condition("Programmed", "Invalid")
	r.expect("ConfigMap", "Deployment", "PodDisruptionBudget", "ServiceAccount")
	r.until("nothing is left to do but to look again", func() bool {
		before := r.cluster.looked()
		time.Sleep(foreign / 4)
		return r.cluster.looked() == before
	})
	r.cluster.leave() // nobody tells of it
	r.until("the Service is made once its name is free", func() bool {
		return slices.ContainsFunc(r.cluster.Objects("default", "edge-penstock"), func(o apply.Object) bool { return o.Kind == "Service" })
	})
}

func TestAMistakeInTheBootstrapIsSaidOfTheGateway(t *testing.T) {
	r := newRig(t)
	r.spec = &v1alpha1.EnvoyFleetSpec{}
	r.spec.Bootstrap = raw(`{"node":{}}`)
	r.gateway("edge", "penstock")
	r.condition("Accepted", "InvalidParameters")
	if f := r.board.get("edge").Findings; len(f) != 1 || !strings.Contains(f[0].Problem, "spec.bootstrap") {
		t.Errorf("findings: %v", f)
	}
}

// rig is Fleets on a cluster in memory.
type rig struct {
	t       *testing.T
	store   *store.Store
	cluster *memory
	board   *board
	fleets  *fleet.Fleets
	stop    func()

	names     []string
	spec      *v1alpha1.EnvoyFleetSpec
	bound     []render.Port
	addresses []gatewayv1.GatewaySpecAddress
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := store.New()
	r := &rig{
		t: t, store: s, cluster: &memory{objects: map[apply.Ref]apply.Object{}}, board: &board{said: map[string]report.Report{}},
		spec: &v1alpha1.EnvoyFleetSpec{},
	}
	r.apply(store.GatewayClasses.Put(&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "penstock"}}))
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) config() fleet.Config {
	return fleet.Config{Foreign: foreign, Store: r.store, Cluster: r.cluster, Follow: r.follow, Board: r.board, Settings: func() render.Settings {
		return render.Settings{
			ADS: []string{"penstock.system.svc:18000"}, CA: []byte("ca"), EnvoyImage: "envoy", PenstockImage: "penstock",
			ExternalIPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}
	}}
}

// follow has everything listed at once; changes are told by memory itself.
func (r *rig) follow(ctx context.Context, synced func()) error {
	synced()
	<-ctx.Done()
	return ctx.Err()
}

func (r *rig) start() {
	f := fleet.New(r.config())
	r.fleets = f
	r.cluster.changed(f.Changed)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	r.stop = func() { cancel(); <-done }
}

// restart is another replica taking over.
func (r *rig) restart() {
	r.stop()
	r.start()
	r.set()
}

func (r *rig) apply(ops ...store.Op) {
	r.t.Helper()
	if _, err := r.store.Apply(ops...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) gateway(name string, class gatewayv1.ObjectName) {
	r.apply(store.Gateways.Put(&gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: class, Addresses: r.addresses, Listeners: []gatewayv1.Listener{
			{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}, {Name: "udp", Port: 53, Protocol: gatewayv1.UDPProtocolType},
		}},
	}))
	r.names = []string{"default/" + name}
	r.set()
}

func (r *rig) set() {
	var list []fleet.Gateway
	for _, n := range r.names {
		list = append(list, fleet.Gateway{Name: n, Spec: r.spec, Bound: r.bound})
	}
	r.fleets.Set(list)
}

// expect waits until these kinds are in the cluster and no others.
func (r *rig) expect(kinds ...string) {
	r.t.Helper()
	slices.Sort(kinds)
	r.until(fmt.Sprintf("objects %v", kinds), func() bool { return slices.Equal(r.cluster.kinds(), kinds) })
}

// condition waits until that is what is said; "" for nothing.
func (r *rig) condition(typ, reason string) {
	r.t.Helper()
	r.until(fmt.Sprintf("condition %s %s", typ, reason), func() bool {
		said := r.board.get("edge").Conditions
		if typ == "" {
			return len(said) == 0
		}
		return len(said) == 1 && said[0].Type == typ && said[0].Reason == reason
	})
}

// settled waits until nothing has been asked of the cluster for a while.
func (r *rig) settled() {
	r.t.Helper()
	before, since := -1, time.Now()
	r.until("quiet", func() bool {
		if n := r.cluster.looked(); n != before {
			before, since = n, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
}

func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			r.t.Fatalf("not in 20 s: %s; there: %v, said: %+v", what, r.cluster.kinds(), r.board.get("edge"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type board struct {
	mu   sync.Mutex
	said map[string]report.Report
}

func (b *board) Set(_ string, reports ...report.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range reports {
		b.said[r.Owner.Name] = r
	}
}

func (b *board) Remove(_ string, owners ...report.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range owners {
		delete(b.said, o.Name)
	}
}

func (b *board) get(name string) report.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[name]
}
