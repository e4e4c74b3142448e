package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ADS returns the address for ADS and peers of a penstock serve with this state folder.
func ADS(state string) string { return "unix:" + filepath.Join(state, "xds.sock") }

// Picker returns the address of the picker of a penstock serve with this state folder.
func Picker(state string) string { return "unix:" + filepath.Join(state, "picker.sock") }

// StartEnvoy starts an Envoy with the output of penstock bootstrap for args. The Envoy's files are
// in dir; their names begin with name.
func StartEnvoy(penstock, envoy, dir, name string, args ...string) (*Process, error) {
	text, err := exec.Command(penstock, append([]string{"bootstrap"}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("penstock bootstrap: %w", err)
	}
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	more := strings.Fields(strings.TrimPrefix(string(line), "# envoy arguments:"))
	return Start(name, filepath.Join(dir, name+".log"), envoy, nil,
		append([]string{"-c", path, "--log-level", "warning"}, more...)...)
}
