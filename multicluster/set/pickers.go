package set

import (
	"github.com/penstock-project/penstock/multicluster/registry"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// PickerDown records, for the conditions of an import, why the picker of an exporting cluster
// cannot be reached. why is "" if the picker can be reached. source names the observer.
func (s *Set) PickerDown(p objectid.Pool, cluster, source, why string) {
	s.assemble(s.importer.SetPickerDown(p, cluster, source, why))
}

// Silent returns the members that are Stale or Unreachable, with their state.
func (s *Set) Silent() map[string]registry.State {
	out := map[string]registry.State{}
	for _, state := range []registry.State{registry.Stale, registry.Unreachable} {
		for _, name := range s.registry.InState(state) {
			out[name] = state
		}
	}
	return out
}
