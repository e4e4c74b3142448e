package hostname

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/penstock-project/penstock/discovery/store"
)

// memoryFile is where addresses are kept over restarts: proxies have them, and a name server that does not answer a process
// that has just started must not take them away. A JSON object: name to addresses.
const memoryFile = "hosts.json"

// memory is what names meant when they were resolved last.
type memory struct {
	path  string // empty: nothing is kept
	known map[string][]string
}

// recall reads what an earlier process knew. A file that cannot be understood is as none: the next answers replace it.
func recall(stateDir string) (memory, error) {
	m := memory{known: map[string][]string{}}
	if stateDir == "" {
		return m, nil
	}
	m.path = filepath.Join(stateDir, memoryFile)
	raw, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("state of host names: %w", err)
	}
	if json.Unmarshal(raw, &m.known) != nil || m.known == nil {
		m.known = map[string][]string{}
	}
	return m, nil
}

// remember writes down what names mean now, if that is news.
func (m *memory) remember(view *store.View) error {
	now := map[string][]string{}
	for _, h := range store.Hosts.All(view) {
		if len(h.Addresses) > 0 {
			now[h.Name] = h.Addresses
		}
	}
	if m.path == "" || maps.EqualFunc(m.known, now, slices.Equal) {
		return nil
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("state of host names: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.path), 0o700), os.WriteFile(m.path+".new", raw, 0o600)); err != nil {
		return fmt.Errorf("state of host names: %w", err)
	}
	if err := os.Rename(m.path+".new", m.path); err != nil {
		return fmt.Errorf("state of host names: %w", err)
	}
	m.known = now
	return nil
}
