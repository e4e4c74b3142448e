package model

import (
	"cmp"
	"fmt"
	"strings"
)

// HopID identifies a hop: the internal listener in front of a pool or an import. The zero ID is no hop.
type HopID struct {
	Import          bool // in front of an InferencePoolImport, not of an InferencePool
	Namespace, Name string
	Member          string // one exporting cluster of an import, or a pool's subset (SubsetMember); "" for all of it
}

// SubsetMember is the Member of the hops and clusters by which requests of a PoolPolicy's subset reach a pool.
func SubsetMember(namespace, policy string) string { return namespace + "." + policy }

// SubsetPolicy is the store's key of the policy that a SubsetMember names, "namespace/name"; "" for none.
func SubsetPolicy(member string) string {
	namespace, name, ok := strings.Cut(member, ".") // namespaces have no dot, names may
	if !ok {
		return ""
	}
	return namespace + "/" + name
}

// HopTo is the hop in front of an object of kind InferencePool or InferencePoolImport.
func HopTo(kind, namespace, name string) HopID {
	return HopID{Import: kind == "InferencePoolImport", Namespace: namespace, Name: name}
}

// IsZero reports whether id is no hop.
func (id HopID) IsZero() bool { return id == HopID{} }

// Key is the store's key of the object: "namespace/name".
func (id HopID) Key() string { return id.Namespace + "/" + id.Name }

// Compare orders IDs by their fields, from the first to the last; hops of pools come first.
func (id HopID) Compare(o HopID) int {
	first := 0
	if id.Import != o.Import {
		if first = -1; id.Import {
			first = 1
		}
	}
	return cmp.Or(first, strings.Compare(id.Namespace, o.Namespace), strings.Compare(id.Name, o.Name), strings.Compare(id.Member, o.Member))
}

// String is the listener's name: "hop.NAMESPACE.pool.NAME", "hop.NAMESPACE.import.NAME" or
// "hop.NAMESPACE.import.NAME@CLUSTER"; of a subset, "hop.NAMESPACE.pool.NAME@NAMESPACE.POLICY". It has no '/', because a picker names it as envoy://HOP/. That of the zero ID is "".
func (id HopID) String() string {
	if id.IsZero() {
		return ""
	}
	kind := "pool"
	if id.Import {
		kind = "import"
	}
	name := "hop." + id.Namespace + "." + kind + "." + id.Name
	if id.Member != "" {
		name += "@" + id.Member
	}
	return name
}

// Address is how a picker names the hop in its list of endpoints. Envoy compares the text exactly.
func (id HopID) Address() string { return "envoy://" + id.String() + "/" }

// ParseHopID reads a hop's name. It accepts exactly the names that String makes; "" is none of them.
func ParseHopID(name string) (HopID, bool) {
	parts := strings.SplitN(name, ".", 4) // namespaces have no dot, names may
	if len(parts) != 4 || parts[0] != "hop" || parts[1] == "" || parts[2] != "pool" && parts[2] != "import" {
		return HopID{}, false
	}
	id := HopID{Import: parts[2] == "import", Namespace: parts[1]}
	var one bool
	id.Name, id.Member, one = strings.Cut(parts[3], "@")
	return id, id.Name != "" && (!one || id.Member != "")
}

// MarshalText implements encoding.TextMarshaler: the hop's name.
func (id HopID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It fails for a text that is not a hop's name; "" is the zero ID.
func (id *HopID) UnmarshalText(text []byte) error {
	parsed, ok := ParseHopID(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a hop", text)
	}
	*id = parsed
	return nil
}
