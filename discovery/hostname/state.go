package hostname

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/penstock-project/penstock/discovery/statefile"
)

// stateFile has the last addresses of all names. They are used if the DNS server fails just after a
// start.
const stateFile = "hosts.json"

type state struct {
	outcome   statefile.Outcome
	path      string
	addresses map[string][]string
}

// restore reads the state file. It ignores an unreadable file, which the next write replaces.
func restore(stateDir string, log *slog.Logger) state {
	m := state{addresses: map[string][]string{}}
	if stateDir == "" {
		return m
	}
	m.path = filepath.Join(stateDir, stateFile)
	raw, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	if err == nil {
		err = json.Unmarshal(raw, &m.addresses)
	}
	if err != nil {
		log.Warn("the last addresses of host names cannot be read", "file", m.path, "error", err)
	}
	if err != nil || m.addresses == nil {
		m.addresses = map[string][]string{}
	}
	for name, addresses := range m.addresses {
		m.addresses[name] = slices.DeleteFunc(addresses,
			func(a string) bool { _, err := netip.ParseAddr(a); return err != nil })
	}
	return m
}

func (m *state) persist(now map[string][]string) error {
	if m.path == "" || maps.EqualFunc(m.addresses, now, slices.Equal) {
		return nil
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("state of host names: %w", err)
	}
	if err := statefile.Replace(m.path, raw); err != nil {
		return fmt.Errorf("state of host names: %w", err)
	}
	m.addresses = now
	return nil
}
