package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/xds/resource"
)

// kubePlane is penstock serve on a cluster, with a proxy.
type kubePlane struct {
	*plane
	proxy   *proxy.Proxy
	gateway string
	arrived chan time.Time // of each response with route configurations
}

// startKube runs the control plane beside the cluster, and connects a proxy to it.
func startKube(ctx context.Context, c config, cluster *cluster, state string) (*kubePlane, error) {
	p, err := start(c.penstock, "serve", "--kubeconfig", cluster.kubeconfig, "--state", state, "--picker",
		"127.0.0.1:0", "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	k := &kubePlane{plane: planeOf(p, state), gateway: cluster.namespace + "/gw", arrived: make(chan time.Time, 4096)}
	address, err := k.adsAddress(ctx)
	if err == nil {
		k.proxy, err = proxy.Connect(ctx, proxy.Config{
			Address: address, Node: "bench", Cluster: k.gateway, Follow: true, Handle: k.note,
		})
	}
	if err == nil {
		err = k.proxy.Start()
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *kubePlane) note(r proxy.Response) {
	if r.URL == resource.RouteConfiguration.URL() {
		select {
		case k.arrived <- r.At:
		default: // no receiver
		}
	}
}

func (k *kubePlane) close() {
	if k.proxy != nil {
		k.proxy.Close()
	}
	k.stop()
}

// has waits until the proxy has the clusters of so many routes, with their endpoints.
func (k *kubePlane) has(ctx context.Context, routes int) error {
	return eventually(ctx, func() error {
		if err := errors.Join(k.proxy.Err(), k.running()); err != nil {
			return err
		}
		have := k.proxy.Have()
		if c, e := len(have[resource.Cluster]), len(have[resource.Endpoints]); c < routes || e < routes {
			return fmt.Errorf("%d clusters and %d endpoint sets of %d", c, e, routes)
		}
		return nil
	})
}

// informer records when each revision of a kind's objects arrives, as for any controller.
type informer struct {
	watch watch.Interface
	mu    sync.Mutex
	seen  map[string]time.Time // resourceVersion -> when
	count map[string]int       // name -> events
	last  map[string]*unstructured.Unstructured
}

func (c *cluster) inform(ctx context.Context, kind schema.GroupVersionResource) (*informer, error) {
	list, err := c.client.Resource(kind).Namespace(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	// The API server ends watches at any time, those with many events first.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.client.Resource(kind).Namespace(c.namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	n := &informer{watch: w, seen: map[string]time.Time{}, count: map[string]int{},
		last: map[string]*unstructured.Unstructured{}}
	for i := range list.Items {
		n.last[list.Items[i].GetName()] = &list.Items[i]
	}
	go func() {
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok {
				n.mu.Lock()
				n.seen[o.GetResourceVersion()] = time.Now()
				n.count[o.GetName()]++
				n.last[o.GetName()] = o
				n.mu.Unlock()
			}
		}
	}()
	return n, nil
}

// at waits until a version of an object has arrived.
func (n *informer) at(ctx context.Context, version string) (at time.Time, err error) {
	err = eventually(ctx, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		var ok bool
		if at, ok = n.seen[version]; !ok {
			return fmt.Errorf("no event for version %s", version)
		}
		return nil
	})
	return at, err
}

// events returns how often an object was written, as far as its events have arrived.
func (n *informer) events(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[name]
}

// having counts the objects whose newest state is as wanted.
func (n *informer) having(wanted func(*unstructured.Unstructured) bool) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.last {
		if wanted(o) {
			count++
		}
	}
	return count
}

// kubeSize is world.Routes5000 with a Service for each route.
var kubeSize = world.Size{Listeners: 50, Hosts: 5000, Backends: 5000, Endpoints: 10, Port: 443, NoPools: true}

// measureKube measures what a change costs on Kubernetes, at two sizes, and what the large cluster
// costs.
func measureKube(ctx context.Context, c config, out report) error {
	cluster, err := bareCluster(ctx)
	if err != nil {
		return err
	}
	defer cluster.end()
	w, err := world.New(kubeSize)
	if err != nil {
		return err
	}
	if err := cluster.gateway(ctx, w); err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	made := 0
	for _, size := range []int{1000, 5000} {
		if err := cluster.routes(ctx, w, made, size, true); err != nil {
			return err
		}
		made = size
		if err := kubeChanges(ctx, c, cluster, filepath.Join(state, fmt.Sprint(size)), size, out); err != nil {
			return fmt.Errorf("%d routes: %w", size, err)
		}
	}
	return kubeColdStart(ctx, c, cluster, filepath.Join(state, "cold"), made, out)
}

// kubeChanges writes routes one after the other.
func kubeChanges(ctx context.Context, c config, cluster *cluster, state string, size int, out report) error {
	k, err := startKube(ctx, c, cluster, state)
	if err != nil {
		return err
	}
	defer k.close()
	if err := k.has(ctx, size); err != nil {
		return fmt.Errorf("%w; its output:\n%s", err, k.output())
	}
	informer, err := cluster.inform(ctx, httpRoutes)
	if err != nil {
		return err
	}
	defer informer.watch.Stop()
	// The statuses of all routes are written first.
	err = eventually(ctx, func() error {
		if n := informer.having(accepted); n < size {
			time.Sleep(100 * time.Millisecond) // to count them costs what the others need
			return fmt.Errorf("%d routes of %d are accepted", n, size)
		}
		return nil
	})
	if err == nil {
		_, err = k.settled(ctx, time.Second)
	}
	if err != nil {
		return err
	}
	used, err := k.cpu()
	if err != nil {
		return err
	}
	const changes = 60
	var bytes, events []time.Duration
	for revision := 1; revision <= changes; revision++ {
		for len(k.arrived) > 0 {
			<-k.arrived
		}
		start := time.Now()
		version, err := cluster.change(ctx, revision*37%size, size+revision)
		if err != nil {
			return err
		}
		select {
		case at := <-k.arrived:
			bytes = append(bytes, at.Sub(start))
		case <-time.After(timeout):
			return errors.New("a change never arrived")
		case <-ctx.Done():
			return ctx.Err()
		}
		at, err := informer.at(ctx, version)
		if err != nil {
			return err
		}
		events = append(events, at.Sub(start))
	}
	name := fmt.Sprintf("kube_change_%d", size)
	out(name, "", float64(median(bytes))/float64(median(events)))
	out(name, "bytes", milliseconds(median(bytes)))
	out(name, "event", milliseconds(median(events)))
	if _, err := k.settled(ctx, time.Second); err != nil {
		return err
	}
	after, err := k.cpu()
	if err != nil || size != 5000 {
		return err
	}
	out("kube_change_cpu", "", milliseconds((after-used)/changes))
	rss, err := memoryAtRest(ctx, k.plane)
	out("kube_memory", "", rss)
	return err
}

// kubeColdStart measures from the process's start until a proxy has everything.
func kubeColdStart(ctx context.Context, c config, cluster *cluster, state string, size int, out report) error {
	start := time.Now()
	k, err := startKube(ctx, c, cluster, state)
	if err != nil {
		return err
	}
	defer k.close()
	if err := k.has(ctx, size); err != nil {
		return err
	}
	out("kube_cold_start", "", k.proxy.Last().Sub(start).Seconds())
	return nil
}

// measureAttached creates many routes at once, and measures the time and the writes until all are
// reported.
func measureAttached(ctx context.Context, c config, out report) error {
	cluster, err := bareCluster(ctx)
	if err != nil {
		return err
	}
	defer cluster.end()
	w, err := world.New(world.Size{Listeners: 1, Hosts: 1000, Backends: 1000, Endpoints: 1, Port: 443, NoPools: true})
	if err != nil {
		return err
	}
	if err := cluster.gateway(ctx, w); err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	k, err := startKube(ctx, c, cluster, state)
	if err != nil {
		return err
	}
	defer k.close()
	if err := eventually(ctx, func() error { _, err := cluster.attached(ctx); return err }); err != nil {
		return fmt.Errorf("%w; its output:\n%s", err, k.output())
	}
	watched, err := cluster.inform(ctx, gateways)
	if err != nil {
		return err
	}
	defer watched.watch.Stop()
	made, err := cluster.inform(ctx, httpRoutes)
	if err != nil {
		return err
	}
	defer made.watch.Stop()
	const routes = 1000
	if err := cluster.routes(ctx, w, 0, routes, false); err != nil {
		return err
	}
	last := time.Now()
	err = eventually(ctx, func() error {
		if n := made.having(accepted); n < routes {
			return fmt.Errorf("%d routes are accepted", n)
		}
		if watched.having(func(u *unstructured.Unstructured) bool {
			n, _ := attachedRoutes(u)
			return n == routes
		}) == 0 {
			return errors.New("the Gateway does not report all routes as attached")
		}
		return nil
	})
	out("kube_attached", "", time.Since(last).Seconds())
	out("kube_attached_writes", "", float64(watched.events("gw")))
	return err
}
