package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/promises/attacks"
	"github.com/penstock-project/penstock/xds/identity"
)

// measureADSMemory measures penstock serve before and after streams that are never authorized, with
// credentials and without. Without, the message alone shows that its sender has no Gateway.
func measureADSMemory(ctx context.Context, c config, out report) error {
	secured, err := floodADS(ctx, c, true)
	if err != nil {
		return err
	}
	trusting, err := floodADS(ctx, c, false)
	if err != nil {
		return err
	}
	out("attack_ads_memory", "", max(secured, trusting))
	return nil
}

// floodADS returns resident memory after an attack over resident memory before it.
func floodADS(ctx context.Context, c config, secure bool) (ratio float64, err error) {
	w, err := world.New(world.Size{Hosts: 100, Backends: 10, Endpoints: 2, Port: 8080})
	if err != nil {
		return 0, err
	}
	files, state, remove, err := folder(w.WriteFiles)
	if err != nil {
		return 0, err
	}
	defer remove()
	transport, args := insecure.NewCredentials(), []string(nil)
	if secure {
		if transport, args, err = secured(ctx, c, state); err != nil {
			return 0, err
		}
	}
	p, err := startPlane(c, "serve", files, state, args...)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	address, err := p.adsAddress(ctx)
	if err != nil {
		return 0, err
	}
	before, err := memoryAtRest(ctx, p)
	if err != nil {
		return 0, err
	}
	if _, err := attacks.Flood(ctx, address, transport, 100, 64<<20); err != nil {
		return 0, fmt.Errorf("some streams did not end: %w", err)
	}
	after, err := memoryAtRest(ctx, p)
	return after / before, errors.Join(err, p.running())
}

// secured creates credentials for penstock serve. The client has no certificate.
func secured(ctx context.Context, c config, dir string) (credentials.TransportCredentials, []string, error) {
	in := func(name string) string { return filepath.Join(dir, "credentials", name) }
	if text, err := exec.CommandContext(ctx, c.penstock, "credentials", "--dir", in(""), "--host", "127.0.0.1").
		CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("penstock credentials: %w\n%s", err, text)
	}
	if err := os.WriteFile(in("tokens"), []byte("none of the attacker's"), 0o600); err != nil {
		return nil, nil, err
	}
	roots, err := identity.Pool(nil, in("ca.crt"))
	if err != nil {
		return nil, nil, err
	}
	// With tokens a client without a certificate passes the handshake.
	return credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock"}),
		[]string{"--xds", "127.0.0.1:0", "--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"),
			"--xds-client-ca", in("ca.crt"), "--xds-token", in("tokens")}, nil
}
