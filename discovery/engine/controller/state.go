package controller

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type saved struct {
	Ports   map[string]uint16                       `json:"ports"` // by process
	Good    map[string]v1alpha1.ModelDeploymentSpec `json:"good"`  // by deployment
	Devices map[string]held                         `json:"devices,omitempty"`
	// Stopped has the deployments in the phase Asleep.
	Stopped map[string]stopped `json:"stopped,omitempty"`

	Models map[string]pin `json:"models,omitempty"`
	// Served has the name in requests that each process was started with.
	Served map[string]string `json:"served,omitempty"`
	// Names are the deployments that own the names of models and adapters in requests, by claim.
	Names map[string]string `json:"names,omitempty"`

	last    string // the content of the file
	outcome statefile.Outcome
}

func newSaved() saved {
	return saved{Ports: map[string]uint16{}, Good: map[string]v1alpha1.ModelDeploymentSpec{},
		Devices: map[string]held{}, Stopped: map[string]stopped{}, Models: map[string]pin{},
		Served: map[string]string{}}
}

func load(path string, log *slog.Logger) saved {
	s := newSaved()
	if path == "" {
		return s
	}
	raw, err := statefile.Read(statefile.Machine{}, path)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("the ports of model servers are not known: servers may be restarted", "error", err)
		s = newSaved()
	}
	s.last = string(raw)
	return s
}

// save writes the state file if it changes, but only with a supervisor, because another process may
// run for the same folder.
func (k *Keeper) save() {
	if k.cfg.StateFile == "" || !k.supervised {
		return
	}
	raw, err := json.Marshal(k.saved)
	if err == nil && string(raw) == k.saved.last {
		return
	}
	if err == nil {
		err = statefile.Replace(k.cfg.StateFile, raw)
	}
	k.saved.outcome.Log(k.cfg.Log, k.cfg.StateFile, "the ports of model servers: servers are restarted", err)
	if err == nil {
		k.saved.last = string(raw)
	}
}
