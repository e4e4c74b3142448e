package limits

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Violation names a field and its fault.
type Violation struct {
	Field   string // path in the value, such as targetPorts[0].number; "" for the value itself
	Problem string // a phrase such as "is 70000, at most 65535"; less than 600 bytes
}

// Error implements error.
func (v *Violation) Error() string {
	if v.Field == "" {
		return "it " + v.Problem
	}
	return v.Field + " " + v.Problem
}

// Schema checks values of one Go type.
type Schema struct{ root *node }

// Check returns the first violation of a value, and an upper bound of the size of its JSON form, in
// bytes. After a violation the size is incomplete. The parameter `value` is a pointer to the
// schema's type.
func (s *Schema) Check(value any) (size int, bad *Violation) {
	c := checking{}
	c.value(s.root, reflect.ValueOf(value).Elem())
	return c.size, c.bad
}

type checking struct {
	size int
	bad  *Violation
}

func (c *checking) fail(format string, args ...any) bool {
	c.bad = &Violation{Problem: fmt.Sprintf(format, args...)}
	return false
}

// within prepends a step to the violation's path, and returns false.
func (c *checking) within(step string) bool {
	if c.bad.Field != "" && !strings.HasPrefix(c.bad.Field, "[") {
		step += "."
	}
	c.bad.Field = step + c.bad.Field
	return false
}

// value checks v, and returns false at the first violation.
func (c *checking) value(n *node, v reflect.Value) bool {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch n.kind {
	case object:
		return c.object(n, v)
	case array:
		return c.array(n, v)
	case text:
		return c.text(n, v.String())
	case integer:
		return c.integer(n, v.Int())
	}
	c.size += longestOther
	return true
}

// longestOther bounds the JSON form of a boolean, a number or a time, in bytes.
const longestOther = 40

func (c *checking) object(n *node, v reflect.Value) bool {
	c.size += len("{}")
	for i := range n.fields {
		f := &n.fields[i]
		at := v.Field(f.index)
		if f.omitted(at) {
			if f.required {
				return c.fail("is missing") || c.within(f.name)
			}
			continue
		}
		c.size += len(f.name) + len(`"":,`)
		if !c.value(f.node, at) {
			return c.within(f.name)
		}
	}
	for _, r := range n.rules {
		if !r.holds(v.Addr().Interface()) {
			return c.fail("is invalid: %s", r.message)
		}
	}
	return true
}

func (c *checking) array(n *node, v reflect.Value) bool {
	switch l := v.Len(); {
	case n.most != nil && int64(l) > *n.most:
		return c.fail("has %d elements, at most %d", l, *n.most)
	case n.least != nil && int64(l) < *n.least:
		return c.fail("has %d elements, at least %d", l, *n.least)
	}
	c.size += len("[]")
	for i := range v.Len() {
		if c.size++; !c.value(n.items, v.Index(i)) {
			return c.within(fmt.Sprintf("[%d]", i))
		}
	}
	return n.unique == nil || c.unique(n, v)
}

func (c *checking) unique(n *node, v reflect.Value) bool {
	if v.Len() < 2 {
		return true
	}
	seen := make(map[any]bool, v.Len())
	for i := range v.Len() {
		key := n.unique(v.Index(i))
		if seen[key] {
			return c.fail("has %.40q twice", fmt.Sprint(key)) || c.within(fmt.Sprintf("[%d]", i))
		}
		seen[key] = true
	}
	return true
}

func (c *checking) text(n *node, s string) bool {
	if !utf8.ValidString(s) {
		return c.fail("is not UTF-8")
	}
	c.size += len(`""`) + encoded(s)
	characters := int64(utf8.RuneCountInString(s))
	switch {
	case n.most != nil && characters > *n.most:
		return c.fail("has %d characters, at most %d", characters, *n.most)
	case n.least != nil && characters < *n.least:
		return c.fail("has %d characters, at least %d", characters, *n.least)
	case n.enum != nil && !n.enum[s]:
		return c.fail("is %.40q, and is to be %s", s, n.choices)
	case n.pattern != nil && !n.pattern.MatchString(s):
		return c.fail("is %.40q, which does not match %.60s", s, n.pattern)
	}
	return true
}

// encoded returns an upper bound of a string's length in JSON: encoding/json escapes some
// characters.
func encoded(s string) int {
	n := len(s)
	for i := range len(s) {
		switch b := s[i]; {
		case b < ' ' || b == '<' || b == '>' || b == '&':
			n += len(`\u0000`) - 1
		case b == '"' || b == '\\':
			n++
		case b == 0xe2: // perhaps the first byte of U+2028
			n += len(`\u2028`) - 3
		}
	}
	return n
}

func (c *checking) integer(n *node, v int64) bool {
	c.size += longestOther
	switch {
	case n.maximum != nil && float64(v) > *n.maximum:
		return c.fail("is %d, at most %.0f", v, *n.maximum)
	case n.minimum != nil && float64(v) < *n.minimum:
		return c.fail("is %d, at least %.0f", v, *n.minimum)
	}
	return true
}
