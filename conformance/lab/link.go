package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

// Link sets the behavior of the link between two clusters of a lab.
type Link struct {
	// From and To are names of clusters, as in Contexts.
	From string `json:"from"`
	To   string `json:"to"`
	// OneWay limits the Fault to packets from From to To. They include replies to requests from To.
	OneWay bool `json:"oneWay,omitempty"`
	network.Fault
}

// Controls is a socket in the lab's folder. A client connects, sends one Link as JSON, and receives
// an error's text as JSON; "" means success.
const Controls = "links.sock"

// SetLink sends a Link to the lab in a folder, and returns once the Link is in effect.
func SetLink(ctx context.Context, dir string, l Link) (err error) {
	if err := l.Check(); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("link of a lab: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	// The path through /proc is short: the folder's own path may be too long for a socket.
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), Controls))
	if err != nil {
		return fmt.Errorf("link of a lab: %w", err)
	}
	defer func() { _ = c.Close() }()
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at) // fails only on a closed connection
	}
	if err := json.NewEncoder(c).Encode(l); err != nil {
		return fmt.Errorf("link of a lab: %w", err)
	}
	var failed string
	if err := json.NewDecoder(c).Decode(&failed); err != nil {
		return fmt.Errorf("link of a lab: %w", err)
	}
	if failed != "" {
		return errors.New(failed)
	}
	return nil
}

// Link sets the behavior of a link between two clusters, and returns once the new behavior is in
// effect.
func (l *Lab) Link(ctx context.Context, link Link) error {
	dir, err := filepath.Abs(l.config.Dir)
	if err != nil {
		return err
	}
	return SetLink(ctx, dir, link)
}
