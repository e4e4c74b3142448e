//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

type state struct {
	Dir      string   `json:"dir"` // absolute
	Clusters int      `json:"clusters"`
	Tools    string   `json:"tools"`
	CRDs     []string `json:"crds"` // files and folders that are applied to each cluster
	// ReleasesOf is a folder whose go.mod names the releases of the CRDs; "" is the working
	// directory. It has no effect if CRDs is not empty.
	ReleasesOf string `json:"releasesOf,omitempty"`
	Audit      bool   `json:"audit"`           // API servers log all requests
	Rootless   bool   `json:"rootless"`        // the lab has a user namespace of its own
	Lifeline   bool   `json:"lifeline"`        // the lab ends when lifelineFD reaches EOF
	Check      bool   `json:"check,omitempty"` // the lab only checks that it could run
	PID        int    `json:"pid,omitempty"`   // PID of the lab's PID 1 in the namespace of `lab up`
}

const defaultDir = ".lab"

func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", defaultDir, "the lab's folder: kubeconfig, logs, state")
}

func stateFile(dir string) string { return filepath.Join(dir, "lab.json") }

func load(dir string) (state, error) {
	raw, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("there is no lab in %s: start one with lab up --dir %s", dir, dir)
	}
	if err != nil {
		return state{}, fmt.Errorf("state of the lab: %w", err)
	}
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return state{}, fmt.Errorf("state of the lab: %s: %w", stateFile(dir), err)
	}
	return s, nil
}

func (s state) save() error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("state of the lab: %w", err)
	}
	if err := os.WriteFile(stateFile(s.Dir), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("state of the lab: %w", err)
	}
	return nil
}

// alive also checks the command line, because PIDs are reused.
func (s state) alive() bool {
	if s.PID == 0 {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID))
	return err == nil && strings.Contains(string(raw), "\x00init\x00"+s.Dir+"\x00")
}

func (s state) note(link string) error {
	file, err := os.OpenFile(s.links(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("state of the lab: %w", err)
	}
	_, err = fmt.Fprintln(file, link)
	return errors.Join(err, file.Close())
}

func (s state) unlink() error {
	raw, err := os.ReadFile(s.links())
	if errors.Is(err, fs.ErrNotExist) || s.Rootless { // no interface yet, or all are in the lab's namespace
		return nil
	}
	if err != nil {
		return fmt.Errorf("state of the lab: %w", err)
	}
	here, err := network.Current()
	if err != nil {
		return err
	}
	defer here.Close()
	for link := range strings.FieldsSeq(string(raw)) {
		err = errors.Join(err, here.Unlink(link))
	}
	return err
}

func (s state) links() string { return filepath.Join(s.Dir, "links") }

func (s state) kubeconfig() string { return filepath.Join(s.Dir, "kubeconfig") }

func (s state) images() string { return filepath.Join(s.Dir, "images.yaml") }

func (s state) log() string { return filepath.Join(s.Dir, "lab.log") }
