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
	"github.com/penstock-project/penstock/conformance/lab/retry"
	"github.com/penstock-project/penstock/xds/resource"
)

type kubePlane struct {
	*plane
	proxy   *proxy.Proxy
	gateway string
	arrived chan time.Time
}

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
		default:
		}
	}
}

func (k *kubePlane) close() {
	if k.proxy != nil {
		k.proxy.Close()
	}
	k.stop()
}

func (k *kubePlane) has(ctx context.Context, routes int) error {
	err := eventually(ctx, func() error {
		if err := errors.Join(k.proxy.Err(), k.Running()); err != nil {
			return err
		}
		have := k.proxy.Have()
		if c, e := len(have[resource.Cluster]), len(have[resource.Endpoints]); c < routes || e < routes {
			return fmt.Errorf("%d clusters and %d endpoint sets of %d", c, e, routes)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%w; its output:\n%s", err, k.output())
	}
	return err
}

type informer struct {
	watch watch.Interface
	mu    sync.Mutex
	seen  map[string]time.Time
	last  map[string]*unstructured.Unstructured
}

func (c *cluster) inform(ctx context.Context, kind schema.GroupVersionResource) (*informer, error) {
	list, err := c.client.Resource(kind).Namespace(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.client.Resource(kind).Namespace(c.namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	n := &informer{watch: w, seen: map[string]time.Time{}, last: map[string]*unstructured.Unstructured{}}
	for i := range list.Items {
		n.last[list.Items[i].GetName()] = &list.Items[i]
	}
	go func() {
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok {
				n.mu.Lock()
				n.seen[o.GetResourceVersion()] = time.Now()
				n.last[o.GetName()] = o
				n.mu.Unlock()
			}
		}
	}()
	return n, nil
}

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

var kubeSize = world.Size{Listeners: 50, Hosts: 5000, Backends: 5000, Endpoints: 10, Port: 443, NoPools: true}

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
	if err := cluster.load(ctx, w); err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	if err := kubeChanges(ctx, c, cluster, filepath.Join(state, "warm"), out); err != nil {
		return err
	}
	begin := time.Now()
	k, err := startKube(ctx, c, cluster, filepath.Join(state, "cold"))
	if err != nil {
		return err
	}
	defer k.close()
	if err := k.has(ctx, kubeSize.Hosts); err != nil {
		return err
	}
	out("kube_cold_start", "", k.proxy.Last().Sub(begin).Seconds())
	return nil
}

func kubeChanges(ctx context.Context, c config, cluster *cluster, state string, out report) error {
	k, err := startKube(ctx, c, cluster, state)
	if err != nil {
		return err
	}
	defer k.close()
	if err := k.has(ctx, kubeSize.Hosts); err != nil {
		return err
	}
	informer, err := cluster.inform(ctx, httpRoutes)
	if err != nil {
		return err
	}
	defer informer.watch.Stop()
	waiting, late := context.WithTimeout(ctx, timeout)
	defer late()
	// Counting takes CPU from the control plane, so the interval is long.
	if err := retry.Until(waiting, 100*time.Millisecond, func(context.Context) error {
		if n := informer.having(accepted); n < kubeSize.Hosts {
			return fmt.Errorf("%d routes of %d are accepted", n, kubeSize.Hosts)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := k.settled(ctx, time.Second); err != nil {
		return err
	}
	var bytes, events []time.Duration
	for revision := 1; revision <= 60; revision++ {
		for len(k.arrived) > 0 {
			<-k.arrived
		}
		start := time.Now()
		version, err := cluster.change(ctx, revision*37%kubeSize.Hosts, revision)
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
	out("kube_change_5000", "", float64(median(bytes))/float64(median(events)))
	out("kube_change_5000", "bytes", milliseconds(median(bytes)))
	out("kube_change_5000", "event", milliseconds(median(events)))
	if err := k.settled(ctx, time.Second); err != nil {
		return err
	}
	rss, err := memoryAtRest(ctx, k.plane)
	out("kube_memory", "", rss)
	return err
}
