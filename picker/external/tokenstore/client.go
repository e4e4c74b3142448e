package tokenstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/external"
)

// NewKey returns a key: 128 random bits in hexadecimal digits.
func NewKey() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:])
	return hex.EncodeToString(bits[:])
}

// ValidKey reports whether a text has the form of a key.
func ValidKey(key string) bool {
	return len(key) == 32 && strings.Trim(key, "0123456789abcdef") == ""
}

// Client stores and fetches lists of token IDs in a token store.
type Client struct{ peer *external.Peer }

// NewClient returns a Client of the store at a URL.
func NewClient(url string, timeout time.Duration) (*Client, error) {
	peer, err := external.NewPeer(external.PeerConfig{Name: "token store", URL: url, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return &Client{peer}, nil
}

// Put stores a JSON list of token IDs under a new key.
func (c *Client) Put(ctx context.Context, tokens []byte, traceParent string) (string, error) {
	key := NewKey()
	r, err := c.peer.Do(ctx,
		external.Call{Method: http.MethodPut, Path: "/tokens/" + key, Body: tokens, TraceParent: traceParent,
			Limit: 4 << 10})
	if err != nil {
		return "", err
	}
	if r.Status/100 != 2 {
		return "", fmt.Errorf("token store: status %d: %.200s", r.Status, r.Body)
	}
	return key, nil
}

// Get fetches the token IDs of a key.
func (c *Client) Get(ctx context.Context, key, traceParent string) ([]uint32, error) {
	if !ValidKey(key) {
		return nil, fmt.Errorf("token store: %.40q is no key", key)
	}
	r, err := c.peer.Do(ctx,
		external.Call{Method: http.MethodGet, Path: "/tokens/" + key, TraceParent: traceParent, Limit: MaxList})
	if err != nil {
		return nil, err
	}
	var tokens []uint32
	switch {
	case r.Status == http.StatusNotFound:
		return nil,
			fmt.Errorf("token store: it does not have the key, which has expired, was evicted or was never stored")
	case r.Status != http.StatusOK:
		return nil, fmt.Errorf("token store: status %d: %.200s", r.Status, r.Body)
	}
	if err := json.Unmarshal(r.Body, &tokens); err != nil {
		return nil, fmt.Errorf("token store: the answer is no JSON list of token IDs: %w", err)
	}
	return tokens, nil
}
