//go:build lab && linux

package promises

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

// tokenRotates starts an Envoy as its owner does, with the output of `penstock bootstrap`. When the
// token's file is replaced, Envoy keeps its stream, and sends the new token on the next stream.
func tokenRotates(p place) {
	port := freePort(p)
	mine := strings.Replace(attached, "port: 80", fmt.Sprintf("port: %d", port), 1)
	p.apply(mine + strings.NewReplacer("name: gw", "name: second", "name: mine", "name: second", "[mine]",
		"[second]").Replace(mine))
	root, err := lab.Repository()
	if err != nil {
		p.Fatal(err)
	}
	dir := p.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), p.authorities(), 0o644); err != nil {
		p.Fatal(err)
	}
	p.swap(dir, p.token("mine", "penstock.dev"))
	to := p.forward(p.processes()[0].Status.PodIP + ":18000")
	node := p.Namespace + "-mine"
	config, err := exec.CommandContext(p.Context(), filepath.Join(root, "bin", "penstock"), "bootstrap", "--gateway",
		p.Namespace+"/gw", "--xds", to.address, "--node", node,
		"--tls-ca", filepath.Join(dir, "ca.crt"), "--tls-server-name", "penstock."+system+".svc", "--token",
		filepath.Join(dir, "token"),
		"--secrets", filepath.Join(dir, "secrets"), "--admin", "unix:"+filepath.Join(dir, "admin.sock")).Output()
	if err != nil {
		p.Fatalf("penstock bootstrap: %v", err)
	}
	first, _, _ := strings.Cut(string(config), "\n")
	if err := os.WriteFile(filepath.Join(dir, "envoy.yaml"), config, 0o644); err != nil {
		p.Fatal(err)
	}
	args := append([]string{"-c", filepath.Join(dir, "envoy.yaml"), "--log-level", "error", "--use-dynamic-base-id"},
		strings.Fields(strings.TrimPrefix(first, "# envoy arguments: "))...)
	envoy := exec.CommandContext(p.Context(), cmp.Or(os.Getenv("ENVOY"), filepath.Join(root, ".tools", "bin", "envoy")),
		args...)
	envoy.Stderr = p.Output()
	if err := envoy.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = envoy.Process.Kill(); _ = envoy.Wait() })

	before := p.attached(node, p.Namespace+"/gw", func() {})
	p.programmed("gw")
	p.swap(dir, p.token("second", "penstock.dev"))
	// The token of another account shows which token Envoy sends when it reconnects.
	if now := p.attached(node, p.Namespace+"/gw", func() {}); now.Connected != before.Connected {
		p.Errorf("the stream was cut: connected at %s, want %s as before", now.Connected, before.Connected)
	}
	p.attached(node, p.Namespace+"/second", to.cut)
	p.programmed("second")
	// When the fleet no longer names a proxy's account, Penstock closes the proxy's stream.
	p.apply(
		"apiVersion: penstock.dev/v1alpha1\nkind: EnvoyFleet\nmetadata: {name: second}\nspec: {mode: external, " +
			"external: {serviceAccounts: [other]}}\n")
	p.Until("the proxy is disconnected", func(ctx context.Context) error {
		list, err := p.proxies(ctx)
		if err == nil && slices.ContainsFunc(list, func(other proxy) bool { return other.Node == node }) {
			err = errors.New("it is connected")
		}
		return err
	})
}

type proxy struct{ Node, Gateway, Connected string }

func (p place) proxies(ctx context.Context) (all []proxy, err error) {
	processes, err := p.pods(ctx, system, "app.kubernetes.io/name=penstock")
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		var list []proxy
		if err := p.admin(ctx, process.Name, "/proxies", &list); err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// admin reads a page of a process's --admin address, through a port-forward to the process's pod.
func (p place) admin(ctx context.Context, pod, page string, into any) error {
	transport, upgrader, err := spdy.RoundTripperFor(p.REST)
	if err != nil {
		return err
	}
	to := p.CoreV1().RESTClient().Post().Resource("pods").Namespace(system).Name(pod).SubResource("portforward").URL()
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to),
		[]string{"0:9091"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	go func() { ended <- f.ForwardPorts() }()
	defer close(stop)
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	ports, err := f.GetPorts()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", ports[0].Local, page), nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return errors.Join(json.NewDecoder(resp.Body).Decode(into), resp.Body.Close())
}

// attached waits until the proxy is connected for gateway. It calls elsewhere while the proxy is
// connected for another gateway.
func (p place) attached(node, gateway string, elsewhere func()) (found proxy) {
	p.Helper()
	p.Until(node+" is a proxy of "+gateway, func(ctx context.Context) error {
		list, err := p.proxies(ctx)
		if err != nil {
			return err
		}
		for _, found = range list {
			if found.Node == node && found.Gateway == gateway {
				return nil
			}
			if found.Node == node {
				elsewhere()
			}
		}
		return fmt.Errorf("proxies: got %v, want %s", list, node)
	})
	return found
}

// swap replaces the token in a folder as the kubelet does: the link ..data gets a new target.
func (p place) swap(dir, token string) {
	p.Helper()
	data, err := os.MkdirTemp(dir, "..")
	if err == nil {
		err = os.WriteFile(filepath.Join(data, "token"), []byte(token), 0o644)
	}
	link := filepath.Join(dir, "..data")
	if err == nil {
		err = os.Symlink(filepath.Base(data), link+"_tmp")
	}
	if err == nil {
		err = os.Rename(link+"_tmp", link)
	}
	if _, missing := os.Lstat(filepath.Join(dir, "token")); err == nil && missing != nil {
		err = os.Symlink(filepath.Join("..data", "token"), filepath.Join(dir, "token"))
	}
	if err != nil {
		p.Fatal(err)
	}
}

type forwarder struct {
	address string
	mu      sync.Mutex
	open    []net.Conn
}

func (p place) forward(to string) *forwarder {
	p.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	f := &forwarder{address: l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			f.mu.Lock()
			f.open = append(f.open, near, far)
			f.mu.Unlock()
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				running.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // until one of the connections is closed
					_ = way[0].Close()
				})
			}
		}
	})
	p.Cleanup(func() {
		_ = l.Close()
		f.cut()
		running.Wait()
	})
	return f
}

func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		_ = c.Close()
	}
	f.open = nil
}

func freePort(p place) int {
	p.Helper()
	port, err := freeport.Find()
	if err != nil {
		p.Fatal(err)
	}
	return port
}
