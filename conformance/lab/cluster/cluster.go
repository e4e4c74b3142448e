//go:build linux

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/conformance/lab/cri"
	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/network"
	"github.com/penstock-project/penstock/conformance/lab/retry"
)

const nodeName = "node"

const startTimeout = 3 * time.Minute

// Config configures a cluster.
type Config struct {
	Name    string // also the name of the context in the kubeconfig
	Dir     string // folder for the kubeconfig and logs
	Private string // an empty folder for all other files, preferably in memory
	Tools   string // folder of the programs kubernetes and etcd
	Node    *network.Namespace
	Images  *image.Table // images that pods can run
	Self    string       // path of a program that becomes a container if its arguments equal Become
	Become  []string
	Plan    network.Plan
	CRDs    []string // YAML files or folders; applied before the cluster is ready
	Audit   bool     // makes the API server log all requests to Dir/audit.log
	Log     *slog.Logger
}

// Cluster is a Kubernetes cluster.
type Cluster struct {
	Config
	ready chan struct{}
}

// New returns a Cluster; Run starts it.
func New(config Config) *Cluster { return &Cluster{Config: config, ready: make(chan struct{})} }

// Kubeconfig returns the path of the administrator's configuration, for the namespace where the lab
// was started.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Ready returns a channel that closes when the CRDs are served and the node runs the DNS pods.
func (c *Cluster) Ready() <-chan struct{} { return c.ready }

func (c *Cluster) server() string { return fmt.Sprintf("https://%s:6443", c.Plan.Node()) }

// Run runs the cluster until ctx is done or a program of the cluster fails.
func (c *Cluster) Run(ctx context.Context) error {
	for _, dir := range []string{c.Dir, c.Private} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	if err := c.credentials(); err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return c.etcd().run(running, c.Node, c.Dir) })
	g.Go(func() error { return c.runtime().Run(running) })
	g.Go(func() error { return c.boot(running, g) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return nil
}

func (c *Cluster) boot(ctx context.Context, g *errgroup.Group) error {
	start := func(p program) { g.Go(func() error { return p.run(ctx, c.Node, c.Dir) }) }
	waiting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := until(waiting, c.etcdAnswers); err != nil {
		return err
	}
	start(c.apiserver())
	config, err := c.client()
	if err != nil {
		return err
	}
	if err := until(waiting, func(ctx context.Context) error { return answers(ctx, config) }); err != nil {
		return err
	}
	kubelet, err := c.kubelet()
	if err != nil {
		return err
	}
	for _, p := range []program{c.controllers(), c.scheduler(), c.proxy(), kubelet} {
		start(p)
	}
	g.Go(func() error { return c.balance(ctx, config) })
	crds := objects{}
	for _, path := range c.CRDs {
		if err := crds.read(path); err != nil {
			return fmt.Errorf("CRDs: %w", err)
		}
	}
	if err := until(waiting, func(ctx context.Context) error { return c.dns(ctx, config) }); err != nil {
		return err
	}
	if err := crds.apply(waiting, config); err != nil {
		return err
	}
	for _, condition := range []func(context.Context, *rest.Config) error{schedulable, resolves} {
		if err := until(waiting, func(ctx context.Context) error { return condition(ctx, config) }); err != nil {
			return err
		}
	}
	close(c.ready)
	return nil
}

func (c *Cluster) runtime() *cri.Server {
	return cri.New(cri.Config{
		Socket: c.private("cri.sock"), Dir: c.private("cri"), Node: c.Node, Plan: c.Plan, Images: c.Images,
		Self: c.Self, Become: c.Become, Log: c.Log,
	})
}

func (c *Cluster) client() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	config.QPS = -1
	return config, nil
}

func until(ctx context.Context, f func(context.Context) error) error {
	if err := retry.Until(ctx, 50*time.Millisecond, f); err != nil {
		return fmt.Errorf("not ready in time: %w", err)
	}
	return nil
}

func (c *Cluster) etcdAnswers(context.Context) error {
	return c.Node.Do(func() error {
		conn, err := net.DialTimeout("tcp", etcdAddress, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func answers(ctx context.Context, config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return nil
}
