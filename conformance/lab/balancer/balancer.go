package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const again = time.Second

// Config configures a Balancer.
type Config struct {
	Client kubernetes.Interface
	Range  netip.Prefix // range of the addresses; the first address is not assigned
	Log    *slog.Logger
}

// Balancer writes the addresses of one cluster's Services.
type Balancer struct{ Config }

// New returns a Balancer; Run starts it.
func New(config Config) *Balancer { return &Balancer{config} }

// Run writes addresses until ctx is done.
func (b *Balancer) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(b.Client, 0)
	services := factory.Core().V1().Services()
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
	})
	if err != nil {
		return fmt.Errorf("load balancers: %w", err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), services.Informer().HasSynced) {
		return nil
	}
	given := addresses{}
	for {
		all, err := services.Lister().List(labels.Everything())
		if err != nil {
			return fmt.Errorf("load balancers: %w", err)
		}
		var retry <-chan time.Time
		given.prune(all)
		for service, addr := range assign(all, given, b.Range) {
			if err := b.write(ctx, name(service), addr); err != nil && ctx.Err() == nil {
				b.Log.Warn("load balancer", "service", name(service), "error", err)
				retry = time.After(again)
				continue
			}
			given[service.UID] = addr
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

func (b *Balancer) write(ctx context.Context, service types.NamespacedName, addr netip.Addr) error {
	status := corev1.LoadBalancerStatus{}
	if addr.IsValid() {
		status.Ingress = []corev1.LoadBalancerIngress{{IP: addr.String()}}
	}
	patch, err := json.Marshal(
		map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": status.Ingress}}})
	if err != nil {
		return err
	}
	_, err = b.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "lab"}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// addresses has the assigned addresses by Service. The informer's copies of Services may lack these
// addresses for a moment.
type addresses map[types.UID]netip.Addr

func (a addresses) of(s *corev1.Service) netip.Addr {
	if given, ok := a[s.UID]; ok {
		return given
	}
	return current(s)
}

func (a addresses) prune(all []*corev1.Service) {
	there := map[types.UID]bool{}
	for _, s := range all {
		there[s.UID] = true
	}
	maps.DeleteFunc(a, func(uid types.UID, _ netip.Addr) bool { return !there[uid] })
}

func assign(services []*corev1.Service, given addresses, within netip.Prefix) map[*corev1.Service]netip.Addr {
	services = slices.SortedFunc(slices.Values(services), func(a, b *corev1.Service) int {
		if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
			return d
		}
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	taken := map[netip.Addr]bool{within.Addr(): true}
	wants := func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil &&
			s.DeletionTimestamp == nil
	}
	writes := map[*corev1.Service]netip.Addr{}
	var open []*corev1.Service
	for _, s := range services { // a Service with a valid address keeps it
		has := given.of(s)
		asked, err := netip.ParseAddr(s.Spec.LoadBalancerIP)
		switch {
		case !wants(s):
			if has.IsValid() && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil {
				writes[s] = netip.Addr{}
			}
		case within.Contains(has) && !taken[has] && (err != nil || asked == has):
			taken[has] = true
		default:
			open = append(open, s)
		}
	}
	slices.SortStableFunc(open, func(a, b *corev1.Service) int { // Services that ask for an address come first
		return len(b.Spec.LoadBalancerIP) - len(a.Spec.LoadBalancerIP)
	})
	next := within.Addr()
	for _, s := range open {
		addr := netip.Addr{}
		if s.Spec.LoadBalancerIP != "" {
			if asked, err := netip.ParseAddr(s.Spec.LoadBalancerIP); err == nil && within.Contains(asked) &&
				!taken[asked] {
				addr = asked
			}
		} else {
			for taken[next] && within.Contains(next) {
				next = next.Next()
			}
			if within.Contains(next) {
				addr = next
			}
		}
		if addr.IsValid() {
			taken[addr] = true
		}
		if addr != given.of(s) {
			writes[s] = addr
		}
	}
	return writes
}

func name(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func current(s *corev1.Service) netip.Addr {
	for _, i := range s.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(i.IP); err == nil {
			return addr
		}
	}
	return netip.Addr{}
}
