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

// state is what the processes of a lab know of each other. It is a file in the lab's folder.
type state struct {
	Dir      string   `json:"dir"` // the folder itself, absolute
	Clusters int      `json:"clusters"`
	Tools    string   `json:"tools"` // folder of the programs that a cluster consists of
	CRDs     []string `json:"crds"`  // files and folders that are applied to each cluster
	// ReleasesOf is a folder whose go.mod says which releases CRDs are of, if those are not given; "" is the working directory.
	ReleasesOf string `json:"releasesOf,omitempty"`
	Audit      bool   `json:"audit"`           // whether API servers note all requests
	Rootless   bool   `json:"rootless"`        // whether the lab has a user namespace of its own
	Lifeline   bool   `json:"lifeline"`        // whether the lab ends when descriptor lifelineFD does
	Check      bool   `json:"check,omitempty"` // whether the lab only tries whether there could be one
	PID        int    `json:"pid,omitempty"`   // of the lab's PID 1, as its starter sees it
}

// defaultDir is where a lab lives unless --dir says otherwise.
const defaultDir = ".lab"

func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", defaultDir, "the lab's folder: kubeconfig, logs, state")
}

func stateFile(dir string) string { return filepath.Join(dir, "lab.json") }

// load reads the state of the lab in a folder.
func load(dir string) (state, error) {
	raw, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("no lab lives in %s: start one with lab up --dir %s", dir, dir)
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

// alive tells whether the lab's PID 1 still runs. A PID is used again one day, hence the look at what it runs.
func (s state) alive() bool {
	if s.PID == 0 {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID))
	return err == nil && strings.Contains(string(raw), "\x00init\x00"+s.Dir+"\x00")
}

// note adds a network interface to those whose end is the end of the lab.
func (s state) note(link string) error {
	file, err := os.OpenFile(s.links(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("state of the lab: %w", err)
	}
	_, err = fmt.Fprintln(file, link)
	return errors.Join(err, file.Close())
}

// unlink removes the lab's network interfaces from this machine.
func (s state) unlink() error {
	raw, err := os.ReadFile(s.links())
	if errors.Is(err, fs.ErrNotExist) || s.Rootless { // none yet, or in the lab's own namespace
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

// links is the file with the names of the lab's network interfaces on this machine.
func (s state) links() string { return filepath.Join(s.Dir, "links") }

// kubeconfig is the file with a context for each cluster.
func (s state) kubeconfig() string { return filepath.Join(s.Dir, "kubeconfig") }

// images is the table of what pods can run.
func (s state) images() string { return filepath.Join(s.Dir, "images.yaml") }

// log is what the lab's own processes have to say.
func (s state) log() string { return filepath.Join(s.Dir, "lab.log") }
