package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/server"
)

// Credentials secure ADS and the picker if no fleet runs. Clients of ADS have a certificate or a
// token, and receive the picker's CA and a key for calls of the picker.
type Credentials struct {
	Files identity.Files
	// Name is the DNS name that proxies verify in the picker's certificate.
	Name string
	// OpenPicker lets every client ask for picks, over TLS.
	OpenPicker bool
}

type holder struct {
	Credentials
	store *store.Store
	log   *slog.Logger

	mu sync.RWMutex
	// keys are the newest root key for calls to the picker, and the previous one, which stays
	// valid.
	keys []string
	ca   []byte
}

func newHolder(c Credentials, s *store.Store, log *slog.Logger) (*holder, error) {
	h := &holder{Credentials: c, store: s, log: log}
	return h, h.refresh()
}

const refreshInterval = 10 * time.Second

func (h *holder) run(ctx context.Context) error {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := h.refresh(); err != nil {
			h.log.Warn("credentials of the picker are not up to date; retrying", "error", err)
		}
	}
}

func (h *holder) refresh() error {
	key, err := h.Files.PickKey()
	if err != nil {
		return fmt.Errorf("the picker's key: %w", err)
	}
	ca, err := h.Files.Bundle()
	if err != nil {
		return fmt.Errorf("the picker's CA: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.keys) > 0 && h.keys[0] == key && slices.Equal(h.ca, ca) {
		return nil
	}
	if len(h.keys) == 0 || h.keys[0] != key {
		h.keys = append([]string{key}, h.keys...)
		h.keys = h.keys[:min(2, len(h.keys))]
	}
	h.ca = ca
	_, err = h.store.Apply(
		store.Authorities.Put(&store.Authority{ObjectMeta: metav1.ObjectMeta{Name: store.OwnAuthority}, CA: ca,
			Key: key}))
	return err
}

func (h *holder) pickKeys() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.keys
}

func (h *holder) security(s security) security {
	s.authenticate = h.authenticate
	s.ads = []grpc.ServerOption{grpc.Creds(identity.ServerCredentials(h.Files.TLS(true, tls.VersionTLS13), h.log))}
	s.picks = h.Files.TLS(false, lowestForPicks(h.OpenPicker))
	s.guardPicks(h.pickKeys, h.OpenPicker)
	return s
}

// authenticate trusts clients of the local socket, which only this user can open.
func (h *holder) authenticate(ctx context.Context) (server.Proxy, error) {
	trusted, err := server.TrustNode(ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr.Network() == "unix" {
		return trusted, nil
	}
	permitted, err := h.Files.Authenticate(ctx)
	if err != nil {
		return nil, err
	}
	return certified{trusted, permitted}, nil
}

type certified struct {
	server.Proxy
	permitted func() (time.Time, error)
}

func (c certified) Permitted(string) (time.Time, error) { return c.permitted() }
