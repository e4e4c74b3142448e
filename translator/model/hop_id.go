package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// HopListener is the name of the internal listener of a Gateway's hops, and of its route
// configuration.
const HopListener = "hops"

// HopID identifies a hop: the virtual host of an internal listener, in front of a pool or an
// import. The zero ID means no hop.
type HopID struct {
	Import          bool // false: an InferencePool
	Namespace, Name string
	Member          string // exporting cluster, or SubsetMember; "" for the whole pool or import
}

// SubsetMember returns the Member in the IDs of hops and clusters for a PoolPolicy's subset.
func SubsetMember(namespace, policy string) string { return namespace + "." + policy }

// SubsetPolicy returns the store key of the PoolPolicy of a SubsetMember, or "" for other members.
func SubsetPolicy(member string) string {
	namespace, name, ok := strings.Cut(member, ".") // names may contain dots, namespaces may not
	if !ok {
		return ""
	}
	return objectid.Join(namespace, name)
}

// HopTo returns the hop in front of an InferencePool or InferencePoolImport.
func HopTo(kind, namespace, name string) HopID {
	return HopID{Import: kind == "InferencePoolImport", Namespace: namespace, Name: name}
}

// AnyMember is the Member of a hop to an import whose weights choose the exporting cluster. No
// cluster has this name.
const AnyMember = "*"

// IsZero reports whether id is the zero ID.
func (id HopID) IsZero() bool { return id == HopID{} }

// Key returns the store key of the pool or import.
func (id HopID) Key() string { return objectid.Join(id.Namespace, id.Name) }

// Target returns the pool or import behind the hop. For the hop of a subset, it returns the whole
// pool.
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

// Compare orders IDs by their fields; pools come first.
func (id HopID) Compare(o HopID) int {
	return cmp.Or(compareBool(id.Import, o.Import), strings.Compare(id.Namespace, o.Namespace),
		strings.Compare(id.Name, o.Name), strings.Compare(id.Member, o.Member))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// String returns the name of the virtual host, which is also the ID of endpoints that lead to it:
// "hop.NAMESPACE.pool.NAME" or "hop.NAMESPACE.import.NAME", and with a Member "...@MEMBER". A byte
// of Member that cannot be in a DNS name becomes "_" and two hex digits, because Envoy ignores case
// here, and pickers separate hops with commas.
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

// Address returns the hop's address in pickers' lists of endpoints and in Envoy's logs.
func (id HopID) Address() string { return "envoy://" + HopListener + "/" + id.String() }

// ParseHopID accepts exactly the names that String returns for nonzero IDs.
func ParseHopID(name string) (HopID, bool) {
	parts := strings.SplitN(name, ".", 4) // names may contain dots, namespaces may not
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

// MarshalText implements encoding.TextMarshaler.
func (id HopID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; "" yields the zero ID.
func (id *HopID) UnmarshalText(text []byte) error {
	parsed, ok := ParseHopID(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a hop", text)
	}
	*id = parsed
	return nil
}
