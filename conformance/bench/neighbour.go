package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
)

// neighbour is a penstock up with a small route, beside the largest HTTPRoutes of another namespace
// or alone.
type neighbour struct {
	files    string
	port     int32
	revision int
	client   *visit
	times    []time.Duration
}

const (
	// largest is how many HTTPRoutes the other namespace has.
	largest = 100
	// neighbourChanges is how many changes of the small route are measured in each place.
	neighbourChanges = 300
)

// measureNeighbour changes a small route, in turns alone, beside the largest HTTPRoutes on another
// chain, and beside them on its own.
func measureNeighbour(ctx context.Context, c config, out report) error {
	if err := os.Setenv("ENVOY", c.envoy); err != nil {
		return err
	}
	all := map[string]*neighbour{}
	for _, where := range []string{"alone", "other_chain", "same_chain"} {
		n := &neighbour{}
		all[where] = n
		stop, err := n.start(ctx, c, where)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		defer stop()
	}
	for range neighbourChanges {
		for _, where := range []string{"alone", "other_chain", "same_chain"} {
			if err := all[where].change(ctx); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
		}
	}
	alone := median(all["alone"].times)
	out("attack_neighbour", "", float64(median(all["other_chain"].times))/float64(alone))
	out("attack_neighbour", "same_chain", float64(median(all["same_chain"].times))/float64(alone))
	out("attack_neighbour", "alone", milliseconds(alone))
	out("attack_neighbour", "other_chain", milliseconds(median(all["other_chain"].times)))
	out("attack_neighbour", "together", milliseconds(median(all["same_chain"].times)))
	return nil
}

// start runs the process, and returns when the small route serves.
func (n *neighbour) start(ctx context.Context, c config, where string) (stop func(), err error) {
	other, err := freePort()
	if err != nil {
		return nil, err
	}
	if n.port, err = freePort(); err != nil {
		return nil, err
	}
	listener := map[string]string{"other_chain": "other", "same_chain": "own"}[where]
	files, state, remove, err := folder(func(dir string) error {
		n.files = dir
		gateway := fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners:
  - {name: own, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: other, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
`, n.port, other)
		err := errors.Join(os.WriteFile(filepath.Join(dir, "gateway.yaml"), []byte(gateway), 0o600), n.save())
		for i := 0; i < largest && listener != ""; i++ {
			err = errors.Join(err,
				os.WriteFile(filepath.Join(dir, fmt.Sprintf("large-%d.yaml", i)), []byte(largeRoute(i, listener)),
					0o600))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := startPlane(c, "up", files, state, "--concurrency", "1")
	if err != nil {
		remove()
		return nil, err
	}
	n.client = &visit{url: fmt.Sprintf("http://small.example:%d/", n.port), client: http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", n.port))
		}},
	}}
	err = eventually(ctx, func() error {
		got, err := n.client.revision(ctx)
		if got == "0" {
			return nil
		}
		return errors.Join(fmt.Errorf("revision %q: %w", got, err), p.running())
	})
	return func() { p.stop(); remove() }, err
}

// save writes the small route, whose responses have its revision.
func (n *neighbour) save() error {
	text := fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: small, namespace: default}
spec:
  parentRefs: [{name: gw, sectionName: own}]
  hostnames: [small.example]
  rules:
  - filters:
    - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: %s, value: "%d"}]}}
    - {type: RequestRedirect, requestRedirect: {statusCode: 302, path: {type: ReplaceFullPath, replaceFullPath: /elsewhere}}}
`, world.RevisionHeader, n.revision)
	staged := filepath.Join(n.files, ".small")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(staged, filepath.Join(n.files, "small.yaml"))
}

// change saves the small route, and sends requests until one sees the change.
func (n *neighbour) change(ctx context.Context) error {
	n.revision++
	begin := time.Now()
	if err := n.save(); err != nil {
		return err
	}
	for {
		got, err := n.client.revision(ctx)
		if got == fmt.Sprint(n.revision) {
			n.times = append(n.times, time.Since(begin))
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(begin) > timeout {
			return fmt.Errorf("revision %d never took effect: requests see %s: %w", n.revision, got, err)
		}
	}
}

// largeRoute is one of the largest HTTPRoutes that Gateway API allows: 128 matches with 16 headers
// and 16 query parameters each. In every other route they are regular expressions, of which
// Penstock gives Envoy as many as the budgets allow.
func largeRoute(i int, listener string) string {
	var b strings.Builder
	kind := []string{"RegularExpression", "Exact"}[i%2]
	fmt.Fprintf(&b, `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: large-%d, namespace: attacker}
spec:
  parentRefs: [{name: gw, namespace: default, sectionName: %s}]
  hostnames: [h%[1]d.attacker.example]
  rules:
`, i, listener)
	for rule := range 16 {
		b.WriteString(
			"  - filters: [{type: RequestRedirect, requestRedirect: {statusCode: 302, hostname: " +
				"attacker.example}}]\n    matches:\n")
		for match := range 8 {
			fmt.Fprintf(&b, "    - path: {value: /%d/%d}\n      headers:\n", rule, match)
			for _, field := range []string{"", "      queryParams:\n"} {
				b.WriteString(field)
				for n := range 16 {
					fmt.Fprintf(&b, "      - {name: x-%d, type: %s, value: '[a-z]{1,%d}'}\n", n, kind, 40+match)
				}
			}
		}
	}
	return b.String()
}
