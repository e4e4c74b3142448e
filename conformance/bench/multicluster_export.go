package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	exportTurns = 15
	goneTurns   = 10
)

// site is a penstock up with an Envoy, a member of a set.
type site struct {
	*plane
	name, dir string
	port      int32
	self      v1alpha1.ClusterSetMember
	stop      func()
}

// newSite starts a cluster with a Gateway and some files.
func newSite(ctx context.Context, c config, name string, files map[string]string) (s *site, err error) {
	s = &site{name: name}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	files["gateway.yaml"] = fmt.Sprintf(gatewayText, s.port)
	var state string
	var remove func()
	s.dir, state, remove, err = folder(func(dir string) error {
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				return err
			}
		}
		return writeClusterSet(dir, name, nil)
	})
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("ENVOY", c.envoy); err != nil {
		return nil, err
	}
	if s.plane, err = startPlane(c, "up", s.dir, state, "--concurrency", "1", "--members-listen",
		"127.0.0.1:0"); err != nil {
		remove()
		return nil, err
	}
	s.stop = func() {
		s.plane.stop()
		remove()
	}
	if s.self, err = memberOf(ctx, s.plane, state); err != nil {
		s.stop()
	}
	return s, err
}

// save replaces a file of the cluster's folder.
func (s *site) save(name, text string) error {
	if err := os.WriteFile(filepath.Join(s.dir, name+"~"), []byte(text), 0o600); err != nil {
		return err
	}
	return world.Commit(s.dir, name)
}

// joinSites makes two clusters members of each other.
func joinSites(a, b *site) error {
	for _, way := range [][2]*site{{a, b}, {b, a}} {
		other := way[1].self
		other.Allow = v1alpha1.ClusterSetAllow{Namespaces: []string{"default"}}
		raw, err := yaml.Marshal(map[string]any{
			"apiVersion": v1alpha1.Group + "/" + v1alpha1.Version, "kind": "ClusterSet",
			"metadata": map[string]any{"name": "bench"},
			"spec":     v1alpha1.ClusterSetSpec{Cluster: way[0].name, Members: []v1alpha1.ClusterSetMember{other}},
		})
		if err != nil {
			return err
		}
		if err := way[0].save("set.yaml", string(raw)); err != nil {
			return err
		}
	}
	return nil
}

const gatewayText = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
`

func routeText(name, group, kind string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /%[1]s/}}]
    backendRefs: [{group: %s, kind: %s, name: %[1]s}]
`, name, group, kind)
}

func importRoute(name string) string {
	return routeText(name, "inference.networking.x-k8s.io", "InferencePoolImport")
}

func poolText(name, annotations string) string {
	return fmt.Sprintf(`apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %s, annotations: {%s}}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
`, name, annotations)
}

func serversText(addresses ...string) string {
	var b strings.Builder
	b.WriteString(
		"apiVersion: penstock.dev/v1alpha1\nkind: ModelServers\nmetadata: {name: chat, labels: {app: chat}}\nspec:\n " +
			" servers:\n")
	for _, a := range addresses {
		host, port, _ := net.SplitHostPort(a)
		fmt.Fprintf(&b, "  - {address: %s, ports: [%s]}\n", host, port)
	}
	return b.String()
}

const exportAnnotation = "inference.networking.x-k8s.io/export: ClusterSet"

// modelServers serve answers with their own address, until stop.
func modelServers(n int) (addresses []string, stop func(), err error) {
	s := &http.Server{ReadHeaderTimeout: timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("x-served-by", r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
		})}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			_ = s.Close()
			return nil, nil, err
		}
		addresses = append(addresses, l.Addr().String())
		go func() { _ = s.Serve(l) }() // ends with stop
	}
	return addresses, func() { _ = s.Close() }, nil
}

// request sends a chat completion below a path, and returns who served it; "" if it was answered
// otherwise.
func (s *site) request(ctx context.Context, client *http.Client, path string) (by string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://127.0.0.1:%d/%s/v1/chat/completions", s.port, path),
		strings.NewReader(`{"model":"m","messages":[]}`))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode == http.StatusOK {
		by = resp.Header.Get("x-served-by")
	}
	return by, errors.Join(err, resp.Body.Close())
}

// events are the objects of a kind that the cluster's store commits from now on.
func (s *site) events(ctx context.Context, kind string) (<-chan offered, error) {
	body, err := s.open(ctx, "/debug/store/"+kind+"?watch")
	if err != nil {
		return nil, err
	}
	out := make(chan offered, 1024)
	go func() { // ends with the process
		defer close(out)
		defer func() { _ = body.Close() }()
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			var e struct{ Name string }
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				out <- offered{e.Name, time.Now()}
			}
		}
	}()
	return out, nil
}

// measureExport measures from an annotation to a request in another cluster.
func measureExport(ctx context.Context, c config, out report) error {
	servers, stop, err := modelServers(1)
	if err != nil {
		return err
	}
	defer stop()
	hereFiles, eastFiles := map[string]string{}, map[string]string{"servers.yaml": serversText(servers...)}
	for turn := range exportTurns {
		name := fmt.Sprintf("pool%d", turn)
		hereFiles[name+"-route.yaml"] = importRoute(name)
		eastFiles[name+".yaml"] = poolText(name, "")
	}
	here, err := newSite(ctx, c, "here", hereFiles)
	if err != nil {
		return err
	}
	defer here.stop()
	east, err := newSite(ctx, c, "east", eastFiles)
	if err != nil {
		return err
	}
	defer east.stop()
	if err := joinSites(here, east); err != nil {
		return err
	}
	if err := connected(ctx, here); err != nil {
		return err
	}
	watch, err := east.events(ctx, "InferencePool")
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: timeout}
	var ours, events []time.Duration
	for turn := range exportTurns {
		name := fmt.Sprintf("pool%d", turn)
		start := time.Now()
		if err := east.save(name+".yaml", poolText(name, "bench: noted")); err != nil {
			return err
		}
		at, err := next(ctx, watch, "default/"+name, start)
		if err != nil {
			return err
		}
		events = append(events, at.Sub(start))
		start = time.Now()
		if err := east.save(name+".yaml", poolText(name, exportAnnotation)); err != nil {
			return err
		}
		for {
			by, err := here.request(ctx, client, name)
			if err != nil {
				return err
			}
			if by != "" {
				break
			}
			if time.Since(start) > timeout {
				return fmt.Errorf("pool %s never serves: %s", name, here.output())
			}
		}
		ours = append(ours, time.Since(start))
	}
	out("mc_export_to_request", "", float64(median(ours))/float64(median(events)))
	out("mc_export_to_request", "ours", milliseconds(median(ours)))
	out("mc_export_to_request", "event", milliseconds(median(events)))
	return nil
}

// next returns when the first event of an object after a time has arrived.
func next(ctx context.Context, events <-chan offered, name string, after time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				return time.Time{}, errors.New("the watch has ended")
			case e.name == name && e.at.After(after):
				return e.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no event of %s: %w", name, ctx.Err())
		}
	}
}

// connected waits until a cluster's members are ready.
func connected(ctx context.Context, s *site) error {
	return eventually(ctx, func() error {
		body, err := s.open(ctx, "/clusters")
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		var is struct{ Members []struct{ State string } }
		if err := json.NewDecoder(body).Decode(&is); err != nil {
			return err
		}
		if len(is.Members) != 1 || is.Members[0].State != "Ready" {
			return fmt.Errorf("members: %v", is.Members)
		}
		return nil
	})
}

// measurePodGone measures from the removal of a model server to the last request to it.
func measurePodGone(ctx context.Context, c config, out report) error {
	servers, stop, err := modelServers(2)
	if err != nil {
		return err
	}
	defer stop()
	here, err := newSite(ctx, c, "here", map[string]string{"route.yaml": importRoute("chat")})
	if err != nil {
		return err
	}
	defer here.stop()
	east, err := newSite(ctx, c, "east", map[string]string{
		"servers.yaml": serversText(servers...), "pool.yaml": poolText("chat", exportAnnotation),
		"route.yaml": routeText("chat", "inference.networking.k8s.io", "InferencePool"),
	})
	if err != nil {
		return err
	}
	defer east.stop()
	if err := joinSites(here, east); err != nil {
		return err
	}
	took := map[*site][]time.Duration{}
	for range goneTurns {
		for _, from := range []*site{here, east} {
			if err := east.save("servers.yaml", serversText(servers...)); err != nil {
				return err
			}
			d, err := from.untilGone(ctx, servers[1],
				func() error { return east.save("servers.yaml", serversText(servers[0])) })
			if err != nil {
				return fmt.Errorf("clients of %s: %w", from.name, err)
			}
			took[from] = append(took[from], d)
		}
	}
	elsewhere, own := median(took[here]), median(took[east])
	out("mc_pod_gone", "", float64(elsewhere)/float64(own))
	out("mc_pod_gone", "elsewhere", milliseconds(elsewhere))
	out("mc_pod_gone", "own", milliseconds(own))
	return nil
}

// untilGone sends requests, removes a server once it serves, and returns how long after the removal
// the last request was sent that it served.
func (s *site) untilGone(ctx context.Context, server string, remove func() error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex
	var last time.Time // when the last request was sent that the server served
	var failed error
	var wait sync.WaitGroup
	working, stop := context.WithCancel(ctx)
	defer stop()
	for range 4 {
		wait.Go(func() {
			client := &http.Client{Timeout: timeout, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for working.Err() == nil {
				sent := time.Now()
				by, err := s.request(working, client, "chat")
				mu.Lock()
				switch {
				case err != nil && working.Err() == nil:
					failed = err
				case by == server && sent.After(last):
					last = sent
				}
				mu.Unlock()
			}
		})
	}
	seen := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
	err := eventually(ctx, func() error {
		if seen().IsZero() {
			return errors.New("the server serves no request")
		}
		return nil
	})
	removed := time.Now()
	if err == nil {
		err = remove()
	}
	if err == nil { // it is gone when it has served none for a second
		err = eventually(ctx, func() error {
			if since := max(time.Since(seen()), 0); since < time.Second || time.Since(removed) < time.Second {
				return errors.New("it still serves")
			}
			return nil
		})
	}
	stop()
	wait.Wait()
	return max(last.Sub(removed), time.Microsecond), errors.Join(err, failed)
}
