package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/filesystem"
)

type target struct {
	files
	cluster cluster
	http    string
}

func (a *target) flags(cmd *cobra.Command) {
	a.files.flags(cmd, "required without --http, --state and a kubeconfig")
	a.cluster.flags(cmd)
	cmd.Flags().StringVar(&a.http, "http", "", "query the penstock whose --admin (or, on loopback, whose --http) has "+
		"this address, instead of the one that runs for -f (default: none)")
	exclusive(cmd, "file", "http")
	exclusive(cmd, "state", "http")
	for _, other := range []string{"file", "state", "http"} {
		exclusive(cmd, "kubeconfig", other)
	}
}

// ranFlags adds the flags of commands that only read. Their default is penstock run's folder, if it
// exists.
func (a *target) ranFlags(cmd *cobra.Command) {
	a.flags(cmd)
	f := cmd.Flags().Lookup("file")
	f.Usage = strings.Replace(f.Usage, "and a kubeconfig", "and a kubeconfig, unless penstock run has a model", 1)
	beforeRun(cmd, func() error {
		if a.http != "" || a.state != "" || len(a.paths) > 0 || a.cluster.file() != "" {
			return nil
		}
		folder, err := runFolder()
		if err != nil {
			return nil // the command itself reports missing files
		}
		if _, err := new(filesystem.Disk).Stat(filepath.Join(folder, runGatewayFile)); err == nil {
			a.paths = []string{folder}
		}
		return nil
	})
}

// running is a penstock process. With dial it is a pod, and address is the pod's name.
type running struct {
	network, address string
	dial             func(context.Context) (net.Conn, error)
	header           http.Header // sent with each request
}

func runningAt(address string) running {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return running{network: "unix", address: path}
	}
	return running{network: "tcp", address: strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")}
}

func runningFor(stateDir string) running {
	return running{network: "unix", address: app.Socket(stateDir)}
}

// withToken adds a token for explain. It fails if the token would cross a network in plain text.
func (r running) withToken(token string) (running, error) {
	if token == "" {
		return r, nil
	}
	if r.network == "tcp" && r.dial == nil {
		host, _, _ := net.SplitHostPort(r.address)
		if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.IsLoopback()) {
			return r, fmt.Errorf("--token-file: the token would go to %s in plain text: run the command on that "+
				"machine", r.address)
		}
	}
	r.header = http.Header{app.TokenHeader: {token}}
	return r, nil
}

func get(ctx context.Context, stateDir, path string, into any) error {
	return runningFor(stateDir).get(ctx, path, into)
}

func (r running) get(ctx context.Context, path string, into any) error {
	body, err := r.open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return json.NewDecoder(body).Decode(into)
}

func (r running) open(ctx context.Context, path string) (io.ReadCloser, error) {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if r.dial != nil {
				return r.dial(ctx)
			}
			return new(net.Dialer).DialContext(ctx, r.network, r.address)
		}}
	client := &http.Client{Transport: transport}
	host := "penstock"
	switch {
	case r.dial != nil:
		host = "localhost" // against DNS rebinding, the admin port denies other host names
		transport.ResponseHeaderTimeout = podsTimeout
	case r.network == "tcp":
		host = r.address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	resp, err := client.Do(req)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, fmt.Errorf("interrupted before the process at %s answered: %w", r.address, context.Cause(ctx))
	}
	if err != nil {
		return nil, r.noAnswer(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return nil,
			fmt.Errorf("the process at %s answered %s: %s", r.address, resp.Status, strings.TrimSpace(string(text)))
	}
	return resp.Body, nil
}

// noAnswer adds the process's address and a fix to err, and removes the URL and address from err.
func (r running) noAnswer(err error) error {
	if call := (*url.Error)(nil); errors.As(err, &call) {
		err = call.Err
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) {
		err = dial.Err
	}
	fix := "start penstock up -f FOLDER, or give the -f and --state that it runs with"
	switch {
	case r.dial != nil && strings.Contains(err.Error(), "is forbidden"):
		fix = "ask for a role in this namespace that allows list of pods and create of pods/portforward"
	case r.dial != nil:
		fix = "see kubectl logs and kubectl describe for this pod"
	}
	if r.network == "tcp" {
		fix = "give the address of a running penstock's --admin"
	}
	return fmt.Errorf("no penstock answers at %s: %w; %s", r.address, err, fix)
}
