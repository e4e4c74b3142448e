package model

import (
	"cmp"
	"fmt"
	"strings"
)

// PoolID identifies a pool to our picker: an InferencePool, one exporting cluster of an import, or an import as a whole, among whose
// exporting clusters the picker chooses. The zero ID is no pool.
type PoolID struct {
	Namespace, Name string
	Member          string // exporting cluster of an import; "" for an InferencePool and a whole import
	Import          bool   // an import as a whole
}

// IsZero reports whether id is no pool.
func (id PoolID) IsZero() bool { return id == PoolID{} }

// Imported reports whether id is an import, or one exporting cluster of it.
func (id PoolID) Imported() bool { return id.Import || id.Member != "" }

// Key is the store's key of the InferencePool or InferencePoolImport: "namespace/name".
func (id PoolID) Key() string { return id.Namespace + "/" + id.Name }

// Compare orders IDs by their fields, from the first to the last.
func (id PoolID) Compare(o PoolID) int {
	return cmp.Or(strings.Compare(id.Namespace, o.Namespace), strings.Compare(id.Name, o.Name), strings.Compare(id.Member, o.Member), compareBool(id.Import, o.Import))
}

// String is "NAMESPACE/NAME", with "@CLUSTER" behind it for an exporting cluster of an import, and "@" for all of it. That of the zero ID
// is "".
func (id PoolID) String() string {
	switch {
	case id.IsZero():
		return ""
	case id.Import:
		return id.Namespace + "/" + id.Name + "@"
	case id.Member == "":
		return id.Namespace + "/" + id.Name
	}
	return id.Namespace + "/" + id.Name + "@" + id.Member
}

// ParsePoolID reads what String makes.
func ParsePoolID(name string) (PoolID, bool) {
	var id PoolID
	namespace, rest, ok := strings.Cut(name, "/")
	name, member, imported := strings.Cut(rest, "@")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return id, false
	}
	return PoolID{Namespace: namespace, Name: name, Member: member, Import: imported && member == ""}, true
}

// MarshalText implements encoding.TextMarshaler: what String makes.
func (id PoolID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It fails for a text that String does not make; "" is the zero ID.
func (id *PoolID) UnmarshalText(text []byte) error {
	parsed, ok := ParsePoolID(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a pool", text)
	}
	*id = parsed
	return nil
}
