package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
)

// neighbour is a penstock up with a small route and, in another namespace, the largest HTTPRoutes.
type neighbour struct {
	*plane
	files    string
	revision int
	visitor  *visitor
	times    []time.Duration
}

const (
	largest          = 100
	neighbourChanges = 300
)

func measureNeighbour(ctx context.Context, c config, out report) error {
	places := []string{"alone", "other_chain", "same_chain"}
	all, times := map[string]*neighbour{}, map[string]float64{}
	for _, place := range places {
		n := &neighbour{}
		all[place] = n
		stop, err := n.start(ctx, c, place)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		defer stop()
	}
	for range neighbourChanges {
		for _, place := range places {
			n := all[place]
			n.revision++
			took, err := n.visitor.effective(ctx, n.revision, n.save)
			if err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
			n.times = append(n.times, took)
		}
	}
	for _, place := range places {
		times[place] = milliseconds(median(all[place].times))
	}
	out("attack_neighbour", "", times["other_chain"]/times["alone"])
	out("attack_neighbour", "same_chain", times["same_chain"]/times["alone"])
	out("attack_neighbour", "alone", times["alone"])
	return nil
}

func (n *neighbour) start(ctx context.Context, c config, place string) (stop func(), err error) {
	own, err := freePort()
	if err != nil {
		return nil, err
	}
	other, err := freePort()
	if err != nil {
		return nil, err
	}
	listener := map[string]string{"other_chain": "other", "same_chain": "own"}[place]
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
`, own, other)
		err := errors.Join(os.WriteFile(filepath.Join(dir, "gateway.yaml"), []byte(gateway), 0o600), n.save())
		for i := 0; i < largest && listener != ""; i++ {
			file := filepath.Join(dir, fmt.Sprintf("large-%d.yaml", i))
			err = errors.Join(err, os.WriteFile(file, []byte(largeRoute(i, listener)), 0o600))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if n.plane, err = startPlane(c, "up", files, state, "--concurrency", "1"); err != nil {
		remove()
		return nil, err
	}
	n.visitor = newVisitor(fmt.Sprintf("http://small.example:%d/", own), own)
	stop = func() { n.stop(); remove() }
	if err := n.visitor.served(ctx, n.plane); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

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
    - type: RequestRedirect
      requestRedirect: {statusCode: 302, path: {type: ReplaceFullPath, replaceFullPath: /elsewhere}}
`, world.RevisionHeader, n.revision)
	if err := os.WriteFile(filepath.Join(n.files, "small.yaml~"), []byte(text), 0o600); err != nil {
		return err
	}
	return world.Commit(n.files, "small.yaml")
}

// largeRoute is one of the largest HTTPRoutes allowed: 128 matches with 16 headers and 16 query
// parameters each. Every other one has regular expressions.
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
