package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/retry"
)

// namedFleet is a fleet whose ModelServers have, in a soak, a host name instead of an address.
const namedFleet = "f1"

// namedAddresses are the addresses that the host name has in turn.
var namedAddresses = []string{"127.0.1.1", "127.0.1.2"}

func (r *run) resolver() []string {
	if r.dns == nil {
		return nil
	}
	return []string{"--dns-server", r.dns.Address()}
}

func (r *run) resolve() (former string) {
	former = namedAddresses[r.named%2]
	r.named++
	r.dns.Answer(netip.MustParseAddr(namedAddresses[r.named%2]))
	return former
}

func (r *run) resolved() (string, error) {
	if r.dns == nil {
		return r.folder.path, nil
	}
	path := filepath.Join(r.Dir, "resolved")
	if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
		return "", err
	}
	for name, text := range r.folder.files {
		text = strings.ReplaceAll(text, r.world.fleets[namedFleet].host, "127.0.0.1")
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return path, nil
}

func (r *run) unresolved(ctx context.Context, p *plane) error {
	r.note("the DNS server drops all queries")
	r.dns.Drop()
	if err := r.looksUp(ctx); err != nil {
		return err
	}
	if err := r.terminate(ctx, p); err != nil { // p starts with the address that it has saved
		return err
	}
	r.note("the DNS server answers SERVFAIL")
	r.dns.Fail()
	if err := r.looksUp(ctx); err != nil {
		return err
	}
	former := r.resolve()
	r.note("the DNS server answers again, with another address than %s", former)
	return soon(ctx, "no endpoint has the former address", func(ctx context.Context) error {
		for _, e := range r.edges {
			got, err := dump(ctx, e.admin)
			if err != nil {
				return err
			}
			for name, text := range got {
				if strings.Contains(text, `"`+former+`"`) {
					return fmt.Errorf("%s of %s has %s", name, e.Name, former)
				}
			}
		}
		return nil
	})
}

func (r *run) looksUp(ctx context.Context) error {
	return soon(ctx, "a name is looked up", func(context.Context) error {
		if r.dns.Queries() == 0 {
			return errors.New("no query")
		}
		return nil
	})
}

// soon waits longer than the longest time between two lookups of a name. Only a run that hangs
// reaches the deadline.
func soon(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := retry.Until(ctx, 200*time.Millisecond, check); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
