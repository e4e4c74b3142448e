package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/picker/authz"
)

// gates has penstock serve processes for one folder, and an Envoy that calls their authorization
// servers.
type gates struct {
	c       config
	files   string
	url     string // ends with a slash
	port    int32
	planes  []*plane
	pickers []string                 // addresses of pickers, which are also authorization servers
	starts  []func() (*plane, error) // restarts planes[i]
	envoys  []*process.Process
	client  http.Client
	stops   []func()
}

// gateRoute routes a host to pool chat, and removes the matched path.
func gateRoute(name, host, match string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s}
spec:
  parentRefs: [{name: gw}]
  hostnames: [%s]
  rules:
  - matches: [%s]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
`, name, host, match)
}

func accessPolicy(name, target, more string) string {
	return fmt.Sprintf("---\napiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: %s}\n"+
		"spec: {targetRefs: [%s], apiKeys: {}%s}\n", name, target, more)
}

const (
	wholeGateway = "{kind: Gateway, name: gw}"
	gatedHost    = "models.example" // the host of picks.Request
)

// gatedObjects gate all routes except open.example and except. Routes of localhost match the body's
// model.
func gatedObjects(ports []int, except ...string) string {
	open := ""
	for _, name := range except {
		open += fmt.Sprintf(", {name: %s}", name)
	}
	return gateRoute("chat", gatedHost, byPath("")) + gateRoute("open", "open.example", byPath("")) +
		gateRoute("model", "localhost", "{headers: [{name: X-Gateway-Model-Name, value: m}]}") +
		accessPolicy("clients", wholeGateway, ", except: [{name: open}"+open+"]") + poolObjects("chat", ports)
}

func startGates(ctx context.Context, c config, planes int, objects string) (g *gates, err error) {
	g = &gates{c: c}
	if g.port, err = freePort(); err != nil {
		return nil, err
	}
	g.url = fmt.Sprintf("http://127.0.0.1:%d/", g.port)
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(fmt.Sprintf(gatewayObject, g.port)+objects), 0o600)
	})
	if err != nil {
		return nil, err
	}
	g.files, g.stops = files, append(g.stops, remove)
	if err := errors.Join(g.begin(planes, state), g.attach()); err != nil {
		g.close()
		return nil, err
	}
	if err := g.decided(ctx, "", http.StatusUnauthorized); err != nil {
		err = g.explained(err)
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *gates) explained(err error) error {
	text := g.planes[0].output()
	return fmt.Errorf("%w; the output of a control plane:\n%s", err, text[max(0, len(text)-2000):])
}

func (g *gates) begin(planes int, state string) error {
	var common []string
	for i := range planes {
		port, err := freePort()
		if err != nil {
			return err
		}
		g.pickers = append(g.pickers, fmt.Sprintf("127.0.0.1:%d", port))
		common = append(common, "--picker-address", g.pickers[i], "--peers", process.ADS(stateOf(state, i)))
	}
	for i, picker := range g.pickers {
		g.starts = append(g.starts, func() (*plane, error) {
			return startPlane(g.c, "serve", g.files, stateOf(state, i), append(common, "--picker", picker)...)
		})
		p, err := g.starts[i]()
		if err != nil {
			return err
		}
		g.planes = append(g.planes, p)
		g.stops = append(g.stops, func() { g.planes[i].stop() })
	}
	return nil
}

func stateOf(state string, i int) string { return filepath.Join(state, fmt.Sprint(i)) }

func (g *gates) attach() error {
	admin, err := freePort()
	if err != nil {
		return err
	}
	args := []string{"--gateway", "default/gw", "--admin", fmt.Sprintf("127.0.0.1:%d", admin), "--concurrency", "1"}
	dir := filepath.Dir(g.files)
	for i := range g.planes {
		args = append(args, "--xds", process.ADS(stateOf(filepath.Join(dir, "state"), i)))
	}
	name := fmt.Sprintf("envoy-%d", len(g.envoys))
	e, err := process.StartEnvoy(g.c.penstock, g.c.envoy, dir, name, args...)
	if err != nil {
		return err
	}
	g.envoys = append(g.envoys, e)
	g.stops = append(g.stops, func() { _ = e.Stop(10 * time.Second) })
	return nil
}

func (g *gates) envoy() int { return g.envoys[len(g.envoys)-1].PID() }

func (g *gates) close() {
	for _, stop := range slices.Backward(g.stops) {
		stop()
	}
}

func (g *gates) write(name, text string) error {
	if err := os.WriteFile(filepath.Join(g.files, name+"~"), []byte(text), 0o600); err != nil {
		return err
	}
	return world.Commit(g.files, name)
}

// ask returns the status of a chat completion; key "" means none.
func (g *gates) ask(ctx context.Context, host, path, key string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := jsonRequest(ctx, g.url+path+chatPath, sameChat)
	if err != nil {
		return 0, "", err
	}
	if req.Host = host; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
}

// agreeing is how many equal responses in a row show that authorization servers agree. Envoy calls
// them in turn.
const agreeing = 20

func (g *gates) decided(ctx context.Context, key string, want int) error {
	return g.answers(ctx, gatedHost, "", key, want)
}

func (g *gates) answers(ctx context.Context, host, path, key string, want int) error {
	return eventually(ctx, func() error {
		for range agreeing {
			if got, body, err := g.ask(ctx, host, path, key); err != nil || got != want {
				return errors.Join(fmt.Errorf("got status %d, want %d: %s", got, want, body), err)
			}
		}
		return nil
	})
}

func (g *gates) inSync(ctx context.Context) error {
	return eventually(ctx, func() error { return g.synced(ctx) })
}

func (g *gates) synced(ctx context.Context) error {
	connected := 0
	for _, p := range g.planes {
		page, err := p.page(ctx, "/proxies")
		if err != nil {
			return err
		}
		var proxies []struct{ InSync, Waiting bool }
		if err := json.Unmarshal(page, &proxies); err != nil {
			return err
		}
		for _, proxy := range proxies {
			if connected++; !proxy.InSync || proxy.Waiting {
				return fmt.Errorf("proxies: %s", page)
			}
		}
	}
	if connected == 0 {
		return errors.New("no Envoy is connected")
	}
	return nil
}

func newKey() (key, hash string) {
	key, _ = authz.NewKey(rand.Reader)
	return key, authz.HashOf(key).String()
}

func keyObject(name, hash, more string) string {
	return fmt.Sprintf("---\napiVersion: penstock.dev/v1alpha1\nkind: APIKey\nmetadata: {name: %s}\n"+
		"spec: {hashes: [%s]%s}\n", name, hash, more)
}

func (g *gates) writeKeys(n int, more string) (last string, err error) {
	for file := range n {
		var text strings.Builder
		for i := range 1000 {
			var hash string
			last, hash = newKey()
			text.WriteString(keyObject(fmt.Sprintf("key-%d", 1000*file+i), hash, more))
		}
		if err := g.write(fmt.Sprintf("keys-%d.yaml", file), text.String()); err != nil {
			return "", err
		}
	}
	return last, nil
}
