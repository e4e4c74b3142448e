package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// HopListener is the internal listener that all hops of a Gateway share, and the route
// configuration behind it.
const HopListener = "hops"

// HopID identifies a hop: the virtual host of HopListener in front of a pool or an import. The zero
// ID is no hop.
type HopID struct {
	Import          bool // in front of an InferencePoolImport, not of an InferencePool
	Namespace, Name string
	Member          string // one exporting cluster of an import, or a pool's subset (SubsetMember); "" for all of it
}

// SubsetMember is the Member of the hops and clusters by which requests of a PoolPolicy's subset
// reach a pool.
func SubsetMember(namespace, policy string) string { return namespace + "." + policy }

// SubsetPolicy is the store's key of the policy that a SubsetMember names, "namespace/name"; "" for
// none.
func SubsetPolicy(member string) string {
	namespace, name, ok := strings.Cut(member, ".") // namespaces have no dot, names may
	if !ok {
		return ""
	}
	return objectid.Join(namespace, name)
}

// HopTo is the hop in front of an object of kind InferencePool or InferencePoolImport.
func HopTo(kind, namespace, name string) HopID {
	return HopID{Import: kind == "InferencePoolImport", Namespace: namespace, Name: name}
}

// AnyMember is the Member of a hop to all exporting clusters of an import at once, by weight. No
// cluster has this name.
const AnyMember = "*"

// IsZero reports whether id is no hop.
func (id HopID) IsZero() bool { return id == HopID{} }

// Key is the store's key of the object: "namespace/name".
func (id HopID) Key() string { return objectid.Join(id.Namespace, id.Name) }

// Target is what is behind the hop. A subset of a pool is that pool.
func (id HopID) Target() objectid.Target {
	to := objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}}
	switch {
	case id.Import && (id.Member == "" || id.Member == AnyMember):
		to.Import = true
	case id.Import:
		to.Member = id.Member
	}
	return to
}

// Compare orders IDs by their fields, from the first to the last; hops of pools come first.
func (id HopID) Compare(o HopID) int {
	return cmp.Or(compareBool(id.Import, o.Import), strings.Compare(id.Namespace, o.Namespace),
		strings.Compare(id.Name, o.Name), strings.Compare(id.Member, o.Member))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// String is the virtual host's name and the ID of endpoints that lead to it:
// "hop.NAMESPACE.pool.NAME", "hop.NAMESPACE.import.NAME" or "hop.NAMESPACE.import.NAME@CLUSTER"; of
// a subset, "hop.NAMESPACE.pool.NAME@NAMESPACE.POLICY". That of the zero ID is "". An exporting
// cluster may have any name: bytes that are not of DNS names are written as "_" and two digits,
// because Envoy ignores case in it, and pickers separate hops by commas.
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
		name += "@" + escape(id.Member)
	}
	return name
}

// plain reports whether a byte of a member's name stands for itself in the name of a hop.
func plain(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' }

func escape(member string) string {
	var out []byte
	for i := range len(member) {
		if c := member[i]; plain(c) {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "_%02x", c)
		}
	}
	return string(out)
}

// unescape reads what escape makes, and nothing else.
func unescape(text string) (member string, ok bool) {
	var out []byte
	for i := 0; i < len(text); i++ {
		if plain(text[i]) {
			out = append(out, text[i])
			continue
		}
		if i+3 > len(text) || text[i] != '_' {
			return "", false
		}
		n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		out = append(out, byte(n))
		i += 2
	}
	return string(out), escape(string(out)) == text
}

// Address is how a picker names the hop in its list of endpoints, and how Envoy logs it. Envoy
// compares the text exactly.
func (id HopID) Address() string { return "envoy://" + HopListener + "/" + id.String() }

// ParseHopID reads a hop's name. It accepts exactly the names that String makes; "" is none of
// them.
func ParseHopID(name string) (HopID, bool) {
	parts := strings.SplitN(name, ".", 4) // namespaces have no dot, names may
	if len(parts) != 4 || parts[0] != "hop" || parts[1] == "" || parts[2] != "pool" && parts[2] != "import" {
		return HopID{}, false
	}
	id := HopID{Import: parts[2] == "import", Namespace: parts[1]}
	name, member, one := strings.Cut(parts[3], "@")
	id.Name = name
	var valid bool
	id.Member, valid = unescape(member)
	return id, valid && id.Name != "" && (!one || id.Member != "")
}

// MarshalText implements encoding.TextMarshaler: the hop's name.
func (id HopID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It fails for a text that is not a hop's name;
// "" is the zero ID.
func (id *HopID) UnmarshalText(text []byte) error {
	parsed, ok := ParseHopID(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a hop", text)
	}
	*id = parsed
	return nil
}
