package set

import (
	"github.com/penstock-project/penstock/multicluster/registry"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// PickerDown records why the picker of an import's cluster cannot be reached, for the import's
// conditions; "": it can. source names the observer.
func (s *Set) PickerDown(p objectid.Pool, cluster, source, why string) {
	s.assemble(s.importer.SetPickerDown(p, cluster, source, why))
}

// Silent returns the members that are Stale or Unreachable, and which of both.
func (s *Set) Silent() map[string]registry.State {
	out := map[string]registry.State{}
	for _, state := range []registry.State{registry.Stale, registry.Unreachable} {
		for _, name := range s.registry.InState(state) {
			out[name] = state
		}
	}
	return out
}
