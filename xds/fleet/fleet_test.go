package fleet_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestFleet_GatewayIsProgrammedOnceProxiesAreReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		r.condition("Programmed", "AddressNotAssigned")
		r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
		r.condition("Programmed", "Pending")
		r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 1 })
		r.condition("", "")
		if got := r.board.get("edge").Addresses; !slices.Equal(got, []string{"192.0.2.1"}) {
			t.Errorf("addresses %v, want %v", got, []string{"192.0.2.1"})
		}
	})
}

func TestDeployment_StuckRolloutIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
		r.cluster.edit("Deployment", func(o *apply.Object) {
			o.Available, o.Replicas, o.Stuck = 1, 2, "ProgressDeadlineExceeded: ReplicaSet has timed out progressing."
		})
		r.condition(fleet.ConditionRolledOut, "Stuck")
		if message := r.board.get("edge").Conditions[0].Message; !strings.Contains(message, "1 of 2 proxies") ||
			!strings.Contains(message, "Deployment edge-penstock: ProgressDeadlineExceeded") {
			t.Errorf(`message: got %s, want "1 of 2 proxies" and why the Deployment is stuck`, message)
		}
		r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 0 })
		r.until("the reason why no proxy is ready", func() bool {
			conditions := r.board.get("edge").Conditions
			return len(conditions) == 2 && strings.Contains(conditions[0].Message,
				"no proxy is ready: ProgressDeadlineExceeded")
		})
		r.cluster.edit("Deployment", func(o *apply.Object) { o.Available, o.Stuck = 2, "" })
		r.condition("", "")
	})
}

func TestServerSideApply_UnchangedObjectsAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		synctest.Wait()
		want := r.cluster.written()
		// compares runs a step until every goroutine is idle, and checks whether a worker has
		// compared the fleet.
		compares := func(step string, worker bool, run func()) {
			t.Helper()
			before := r.cluster.looked()
			run()
			synctest.Wait()
			if looked := r.cluster.looked() > before; looked != worker {
				t.Errorf("%s: a worker compared the objects: %v, want %v", step, looked, worker)
			}
			if n := r.cluster.written(); n != want {
				t.Errorf("%s: %d writes, want %d", step, n, want)
			}
		}
		compares("a revision about something else", false, r.set)
		compares("settings are read again", true, r.fleets.Refresh)
		compares("another replica leads", true, r.restart)
		want++
		compares("the Deployment is edited by another client", true, func() {
			r.cluster.edit("Deployment", func(o *apply.Object) { o.Mark = "edited" })
		})
		want++
		compares("the Service is deleted", true, func() { r.cluster.remove("Service") })
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	})
}

func TestService_ListenerChangeWritesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		synctest.Wait()
		before := r.cluster.written()
		r.bound = []render.Port{{Number: 8443, Name: "https"}} // port of a ListenerSet
		r.set()
		r.until("a write", func() bool { return r.cluster.written() > before })
		synctest.Wait()
		if got := slices.Sorted(slices.Values(r.cluster.writes[before:])); !slices.Equal(got,
			[]string{"NetworkPolicy", "Service"}) {
			t.Errorf("written: %v, want %v", got, []string{"NetworkPolicy", "Service"})
		}
	})
}

func TestGatewayClass_MissingClassKeepsProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		r.condition("Programmed", "AddressNotAssigned")
		r.spec = nil // not accepted
		r.set()
		synctest.Wait()
		r.condition("", "") // translation reports the reason
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		r.apply(store.GatewayClasses.Delete("penstock"))
		r.names = nil // without a class, the Gateway is not Penstock's
		r.set()
		synctest.Wait()
		conditions := r.board.get("edge").Conditions
		if len(conditions) != 2 || conditions[0].Type != "Accepted" || conditions[0].Status != report.False ||
			!strings.Contains(conditions[1].Message, "GatewayClass penstock does not exist") {
			t.Errorf("conditions of a Gateway without its class: got %+v, want 2, not accepted, that name the class",
				conditions)
		}
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		r.apply(
			store.GatewayClasses.Put(&gatewayv1.GatewayClass{
				ObjectMeta: metav1.ObjectMeta{Name: "other"},
				Spec:       gatewayv1.GatewayClassSpec{ControllerName: "example.com/other"},
			}))
		r.gateway("edge", "other")
		r.names = nil
		r.set()
		r.expect()
		r.until("the report is removed", func() bool { return len(r.board.get("edge").Conditions) == 0 })
	})
}

func TestFleet_DeletesNothingBeforeGatewaysAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		other := fleet.New(r.config())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = other.Run(ctx) }()
		other.Changed(apply.Ref{Kind: "Service", Namespace: "default", Name: "edge-penstock"})
		cancel()
		<-done
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
	})
}

func TestHorizontalPodAutoscaler_ExistsOnlyIfRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spec = &v1alpha1.EnvoyFleetSpec{Autoscaling: &v1alpha1.FleetAutoscaling{MaxReplicas: 3}}
		r.gateway("edge", "penstock")
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "HorizontalPodAutoscaler", "PodDisruptionBudget",
			"Service", "ServiceAccount")
		r.spec = &v1alpha1.EnvoyFleetSpec{Replicas: new(int32)}
		r.set()
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount")
	})
}

func TestEnvoyFleet_ExternalModeHasNoObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount")
		r.spec = &v1alpha1.EnvoyFleetSpec{Mode: v1alpha1.FleetExternal,
			External: &v1alpha1.FleetExternalSpec{Addresses: []string{"edge.example"}}}
		r.set()
		r.expect()
		r.until("its addresses",
			func() bool { return slices.Equal(r.board.get("edge").Addresses, []string{"edge.example"}) })
	})
}

func TestEnvoyFleet_InvalidExternalAddressIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spec = &v1alpha1.EnvoyFleetSpec{Mode: v1alpha1.FleetExternal,
			External: &v1alpha1.FleetExternalSpec{
				Addresses: []string{"not an address!", "edge.example", "fe80::1%eth0", "2001:db8::1"},
			}}
		r.gateway("edge", "penstock")
		r.condition("Accepted", "InvalidParameters")
		if got := r.board.get("edge").Addresses; !slices.Equal(got, []string{"edge.example", "2001:db8::1"}) {
			t.Errorf("addresses %v, want %v", got, []string{"edge.example", "2001:db8::1"})
		}
	})
}

func TestEnvoyFleet_TooLittleMemoryKeepsServingFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gateway("edge", "penstock")
		r.expect("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "ConfigMap")
		synctest.Wait()
		before := r.cluster.written()
		limit := func(text string) {
			r.spec = &v1alpha1.EnvoyFleetSpec{
				Resources: &corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)},
				},
			}
			r.set()
		}
		limit("1Mi")
		r.condition("Accepted", "InvalidParameters")
		if n := r.cluster.written(); n != before {
			t.Errorf("%d writes, want none", n-before)
		}
		limit("64Mi")
		r.until("the Deployment is written", func() bool { return r.cluster.written() > before })
	})
}

func TestGatewayStaticAddresses_UnassignedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "192.0.2.1"}, {Value: "192.0.2.2"}}
		r.gateway("edge", "penstock")
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount")
		r.cluster.edit("Service", func(o *apply.Object) { o.External = []string{"192.0.2.2"} })
		r.condition("Programmed", "AddressNotUsable")
		r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
		r.condition("Programmed", "Pending")
	})
}

func TestGatewayStaticAddresses_OutsideAllowedRangesAreNotTaken(t *testing.T) {
	for _, typ := range []corev1.ServiceType{"", corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP} {
		t.Run(string(typ), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{Type: typ}}
				r.addresses = []gatewayv1.GatewaySpecAddress{
					{Value: "192.0.2.1"}, {Value: "192.0.2.2"}, {Value: "10.96.0.10"}, {Value: "::ffff:8.8.8.8"},
				}
				r.gateway("edge", "penstock")
				r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount")
				r.cluster.edit("Service", func(o *apply.Object) {
					o.Type, o.Balancer, o.ClusterIPs, o.External = "LoadBalancer", []string{"192.0.2.1"},
						[]string{"192.0.2.1"}, []string{"192.0.2.1", "192.0.2.2"}
				})
				r.until("a condition with the fix", func() bool {
					conditions := r.board.get("edge").Conditions
					return len(conditions) == 1 && conditions[0].Reason == "AddressNotUsable" &&
						strings.HasPrefix(conditions[0].Message,
							"outside the allowed ranges: 10.96.0.10, ::ffff:8.8.8.8; remove it") &&
						strings.Contains(conditions[0].Message, "--external-ips")
				})
				gw, _ := store.Gateways.Get(r.store.View(), "default/edge")
				own, external, outside := render.Assign(gw, r.spec,
					[]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("::/0")})
				if (own == "192.0.2.1") != (typ != corev1.ServiceTypeNodePort) ||
					external[len(external)-1] != "192.0.2.2" || len(outside) != 2 {
					t.Errorf("own %q, accepted by nodes %v, outside the ranges %v; want 192.0.2.1 unless NodePort, "+
						"192.0.2.2 last, and 2", own, external, outside)
				}
			})
		})
	}
}

func TestService_ImmutableFieldIsReportedWithFix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		message := func(typ, reason, text string) {
			t.Helper()
			r.condition(typ, reason)
			if got := r.board.get("edge").Conditions[0].Message; got != text {
				t.Errorf("message: %s\nwant: %s", got, text)
			}
		}
		const recreate = "delete the Service, and Penstock creates it again: kubectl delete service --namespace " +
			"default edge-penstock"
		class := "example.com/nlb"
		r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{LoadBalancerClass: &class}}
		r.gateway("edge", "penstock")
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount")
		r.cluster.edit("Service", func(o *apply.Object) { o.Balancer = []string{"192.0.2.1"} })
		r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 1 })
		r.condition("", "")
		r.spec = &v1alpha1.EnvoyFleetSpec{Replicas: new(int32(3))}
		r.set()
		message("Accepted", "InvalidParameters",
			"the EnvoyFleet's spec.service.loadBalancerClass: Service default/edge-penstock has example.com/nlb, "+
				"which is immutable; "+
				"write example.com/nlb again, or, for another load balancer and perhaps another address, "+recreate)
		r.cluster.remove("Service")
		r.condition("Programmed", "AddressNotAssigned")

		r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{Type: corev1.ServiceTypeClusterIP}}
		r.set()
		r.until("a cluster IP", func() bool { return r.cluster.typed() == corev1.ServiceTypeClusterIP })
		r.cluster.edit("Service", func(o *apply.Object) { o.ClusterIPs = []string{"10.96.0.9"} })
		r.condition("", "")
		r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "10.96.0.50"}}
		r.gateway("edge", "penstock")
		message("Programmed", "AddressNotUsable",
			"spec.addresses: Service default/edge-penstock has the cluster IP 10.96.0.9, which is immutable; to get "+
				"10.96.0.50, "+recreate)
	})
}

func TestNodePort_AddressesAreThoseOfNodesWithProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spec = &v1alpha1.EnvoyFleetSpec{Service: &v1alpha1.FleetService{Type: corev1.ServiceTypeNodePort}}
		r.gateway("edge", "penstock")
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount")
		r.cluster.edit("Service", func(o *apply.Object) { o.ClusterIPs = []string{"10.96.0.9"} })
		// Without a proxy, no node has an address.
		r.condition("Programmed", "Pending")
		r.addresses = []gatewayv1.GatewaySpecAddress{{Value: "192.0.2.9"}}
		r.gateway("edge", "penstock")
		r.condition("Programmed", "AddressNotUsable")
		r.cluster.edit("Service", func(o *apply.Object) { o.External = []string{"192.0.2.9"} })
		r.cluster.edit("Deployment", func(o *apply.Object) { o.Available = 2 })
		r.cluster.edit("Service", func(o *apply.Object) {
			o.Nodes = []string{"198.51.100.1", "198.51.100.2", "2001:db8::1"}
		})
		r.condition("", "")
		// The cluster IP is unreachable from outside, and the Service has no IPv6.
		if got, want := r.board.get("edge").Addresses,
			[]string{"192.0.2.9", "198.51.100.1", "198.51.100.2"}; !slices.Equal(got, want) {
			t.Errorf("addresses %v, want %v", got, want)
		}
		r.cluster.edit("Service", func(o *apply.Object) {
			o.Nodes = nil
			for i := range 40 {
				o.Nodes = append(o.Nodes, fmt.Sprintf("198.51.100.%d", 10+i))
			}
		})
		r.until("the maximum of a status", func() bool { return len(r.board.get("edge").Addresses) == 16 })
	})
}

func TestServerSideApply_ObjectOfOthersIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cluster.conflicting = "Service"
		r.gateway("edge", "penstock")
		r.condition("Programmed", "Invalid")
		r.expect("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount")
		synctest.Wait()
		r.cluster.leave() // no event is sent
		r.until("the Service is created once its name is free", func() bool {
			return slices.ContainsFunc(r.cluster.Objects("default", "edge-penstock"),
				func(o apply.Object) bool { return o.Kind == "Service" })
		})
	})
}

func TestEnvoyFleet_InvalidBootstrapIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spec = &v1alpha1.EnvoyFleetSpec{}
		r.spec.Bootstrap = raw(`{"node":{}}`)
		r.gateway("edge", "penstock")
		r.condition("Accepted", "InvalidParameters")
		if f := r.board.get("edge").Findings; len(f) != 1 || !strings.Contains(f[0].Problem, "spec.bootstrap") {
			t.Errorf("findings: got %v, want one of spec.bootstrap", f)
		}
	})
}

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
		t: t, store: s, cluster: &memory{objects: map[apply.Ref]apply.Object{}},
		board: &board{reports: map[string]report.Report{}},
		spec:  &v1alpha1.EnvoyFleetSpec{},
	}
	r.apply(store.GatewayClasses.Put(&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "penstock"}}))
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) config() fleet.Config {
	return fleet.Config{Store: r.store, Cluster: r.cluster, Follow: r.follow, Board: r.board,
		Settings: func() render.Settings {
			return render.Settings{
				ADS: []string{"penstock.system.svc:18000"}, CA: []byte("ca"), EnvoyImage: "envoy",
				PenstockImage: "penstock",
				ExternalIPs:   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			}
		}}
}

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
			{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
			{Name: "udp", Port: 53, Protocol: gatewayv1.UDPProtocolType},
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

func (r *rig) expect(kinds ...string) {
	r.t.Helper()
	slices.Sort(kinds)
	r.until(fmt.Sprintf("objects %v", kinds), func() bool { return slices.Equal(r.cluster.kinds(), kinds) })
}

// condition waits until the report has only this condition; "" for none.
func (r *rig) condition(typ, reason string) {
	r.t.Helper()
	r.until(fmt.Sprintf("condition %s %s", typ, reason), func() bool {
		conditions := r.board.get("edge").Conditions
		if typ == "" {
			return len(conditions) == 0
		}
		return len(conditions) == 1 && conditions[0].Type == typ && conditions[0].Reason == reason
	})
}

func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	poll.NoError(r.t, what, poll.Limit, func() error {
		if !holds() {
			return fmt.Errorf("objects %v, report %+v", r.cluster.kinds(), r.board.get("edge"))
		}
		return nil
	})
}

type board struct {
	mu      sync.Mutex
	reports map[string]report.Report
}

func (b *board) Set(_ string, reports ...report.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range reports {
		b.reports[r.Owner.Name] = r
	}
}

func (b *board) Remove(_ string, owners ...report.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range owners {
		delete(b.reports, o.Name)
	}
}

func (b *board) get(name string) report.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reports[name]
}
