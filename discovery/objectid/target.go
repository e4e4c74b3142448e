package objectid

import (
	"cmp"
	"fmt"
	"strings"
)

// Target identifies the set from which the picker chooses an endpoint for a request: an
// InferencePool, one exporting cluster of an import, or all exporting clusters of an import. The
// zero Target names no pool.
type Target struct {
	Pool
	Member string // exporting cluster of an import; "" for an InferencePool and a whole import
	Import bool   // the Target is a whole import
}

// ParseTarget parses a result of Target.String.
func ParseTarget(text string) (Target, bool) {
	pool, member, imported := strings.Cut(text, "@")
	p, ok := ParsePool(pool)
	if !ok {
		return Target{}, false
	}
	return Target{Pool: p, Member: member, Import: imported && member == ""}, true
}

// MustParseTarget is ParseTarget for a constant. It panics if the text is invalid.
func MustParseTarget(text string) Target {
	t, ok := ParseTarget(text)
	if !ok {
		panic(text + " names no pool")
	}
	return t
}

// IsZero reports whether t names no pool.
func (t Target) IsZero() bool { return t == Target{} }

// Imported reports whether t is an import, or an exporting cluster of an import.
func (t Target) Imported() bool { return t.Import || t.Member != "" }

// Compare orders targets by pool, then by member, then whole imports last.
func (t Target) Compare(o Target) int {
	return cmp.Or(t.Pool.Compare(o.Pool), strings.Compare(t.Member, o.Member), compareBool(t.Import, o.Import))
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

// String returns "NAMESPACE/NAME", followed by "@MEMBER" for an exporting cluster of an import and
// "@" for a whole import. The zero Target is "".
func (t Target) String() string {
	switch {
	case t.IsZero():
		return ""
	case t.Import:
		return t.Namespace + "/" + t.Name + "@"
	case t.Member == "":
		return t.Pool.String()
	}
	return t.Namespace + "/" + t.Name + "@" + t.Member
}

// Len returns the length of String.
func (t Target) Len() int {
	if t.IsZero() {
		return 0
	}
	n := len(t.Namespace) + len("/") + len(t.Name)
	if t.Imported() {
		n += len("@") + len(t.Member)
	}
	return n
}

// AppendText implements encoding.TextAppender. It does not allocate if b has room.
func (t Target) AppendText(b []byte) ([]byte, error) {
	if t.IsZero() {
		return b, nil
	}
	b = append(append(append(b, t.Namespace...), '/'), t.Name...)
	if t.Imported() {
		b = append(append(b, '@'), t.Member...)
	}
	return b, nil
}

// MarshalText implements encoding.TextMarshaler.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts only results of String.
func (t *Target) UnmarshalText(text []byte) error {
	parsed, ok := ParseTarget(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a pool", text)
	}
	*t = parsed
	return nil
}
