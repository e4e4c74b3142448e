package inference

import (
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// Hop decides what the internal listener of a name sends to: the last variants of the pool or import that the name
// says. False if there is no such pool, or none of its clusters takes traffic.
func Hop(r store.Reader, name string) (*model.Hop, bool) {
	parts := strings.SplitN(name, ".", 4) // hop, namespace, pool or import, name
	if len(parts) != 4 {
		return nil, false
	}
	hop := &model.Hop{Name: name}
	switch parts[2] {
	case "pool":
		obj, ok := store.InferencePools.Get(r, parts[1]+"/"+parts[3])
		if !ok {
			return nil, false
		}
		p, _ := basePool(r, obj)
		hop.Owners = p.Owners
		hop.Backends = []model.WeightedBackend{lastBackend(p, 1)}
	case "import":
		imp, ok := importBehind(r, parts[1], parts[3])
		if !ok {
			return nil, false
		}
		hop.Owners = append(hop.Owners, imp.Ref)
		for _, m := range imp.Members {
			if m.Problem != "" || m.Share == 0 {
				continue
			}
			if m.Pool != nil {
				hop.Backends = append(hop.Backends, lastBackend(m.Pool, m.Share))
			} else {
				hop.Backends = append(hop.Backends, model.WeightedBackend{Cluster: m.Cluster, Backend: store.TargetKey(imp.Ref.Kind, imp.Ref.Namespace, imp.Ref.Name), Weight: m.Share})
			}
		}
	}
	return hop, len(hop.Backends) > 0
}

// importBehind finds the import that a hop's name means: what a user may have written (findImport), or NAME@CLUSTER.
func importBehind(r store.Reader, namespace, name string) (*model.Import, bool) {
	name, member, one := strings.Cut(name, "@")
	if !one {
		return findImport(r, namespace, name)
	}
	imp, _, ok := baseImport(r, namespace+"/"+name)
	if !ok {
		return nil, false
	}
	return pinnedTo(imp, member)
}

// lastBackend sends to a pool as a hop does: asked at its own picker, spilling no further.
func lastBackend(p *model.Pool, weight uint32) model.WeightedBackend {
	b := model.WeightedBackend{Cluster: p.Last, Backend: store.TargetKey(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name), Weight: weight}
	if p.Picker.Cluster != "" {
		call := p.Picker
		call.Spills, call.Spill, call.Last = false, nil, true
		b.Picker = &call
	}
	return b
}
