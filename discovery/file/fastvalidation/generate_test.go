package fastvalidation

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// generator makes random values for one CEL rule. They have the types in the rule's schema. Fields,
// texts and numbers that occur in the rule are more frequent than others.
type generator struct {
	rnd     *rand.Rand
	rule    string
	own     []string // texts that the rule compares with, and ""
	texts   []string
	numbers []int64
}

var (
	textLiteral   = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
	numberLiteral = regexp.MustCompile(`\b\d+\b`)
	// usualTexts are texts that match, or nearly match, the patterns in the rules of the Gateway
	// API and of Penstock's own kinds.
	usualTexts = []string{
		"", "x", "y", "*", "/", "/v1/chat", "//", "/a/./b", "/a/%2f", "/a?b", "example.com", "*.example.com",
		"http://example.com", "https://*.example.com",
		"10s", "0s", "1h", "1.2.3.4", "300.1.1.1", "2001:db8::1", "fe80::1%eth0", "64Mi", "1Mi", "not an address!",
		"GET", "X-Header", "bad header!", "example.com/engine:v1",
	}
	usualNumbers = []int64{-1, 0, 1, 2, 80, 443, 301, 500, 65535, 70000, 1 << 20, 2_000_000_000}
)

func newGenerator(rule string, s *structural.Structural) *generator {
	g := &generator{rnd: rand.New(rand.NewPCG(1, 2)), rule: rule, own: []string{""}, texts: usualTexts,
		numbers: usualNumbers}
	for _, m := range textLiteral.FindAllStringSubmatch(rule, -1) {
		text := m[1] + m[2]
		g.own = append(g.own, text)
		g.texts = append(slices.Clip(g.texts), text+"x", "x"+text)
	}
	for _, m := range numberLiteral.FindAllString(rule, -1) {
		n, err := strconv.ParseInt(m, 10, 64)
		if err != nil {
			continue // the number in the rule is too large
		}
		g.numbers = append(slices.Clip(g.numbers), n-1, n, n+1)
		if n > 1 && n < 10_000 {
			g.texts = append(slices.Clip(g.texts), strings.Repeat("a", int(n)))
		}
	}
	g.texts = append(g.texts, enums(s, nil)...)
	return g
}

// enums adds to out all enum values anywhere in a schema, because a rule may compare a field with
// the value of another field.
func enums(s *structural.Structural, out []string) []string {
	if s == nil {
		return out
	}
	if s.ValueValidation != nil {
		for _, e := range s.ValueValidation.Enum {
			if text, ok := e.Object.(string); ok {
				out = append(out, text)
			}
		}
	}
	for _, name := range sortedProperties(s) {
		p := s.Properties[name]
		out = enums(&p, out)
	}
	return enums(s.Items, out)
}

func sortedProperties(s *structural.Structural) []string {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// text returns a random text. Half of the texts occur in the rule.
func (g *generator) text() string {
	if g.rnd.IntN(2) == 0 {
		return pick(g, g.own)
	}
	return pick(g, g.texts)
}

func pick[T any](g *generator, list []T) T { return list[g.rnd.IntN(len(list))] }

func (g *generator) value(s *structural.Structural) any {
	if s.XIntOrString || s.XPreserveUnknownFields && s.Type == "" {
		if g.rnd.IntN(2) == 0 {
			return pick(g, g.numbers)
		}
		return g.text()
	}
	switch s.Type {
	case "object":
		return g.object(s)
	case "array":
		return g.list(s)
	case "integer":
		return pick(g, g.numbers)
	case "number":
		return float64(pick(g, g.numbers)) / 2
	case "boolean":
		return g.rnd.IntN(2) == 0
	}
	if v := s.ValueValidation; v != nil && len(v.Enum) > 0 && g.rnd.IntN(4) > 0 {
		return pick(g, v.Enum).Object
	}
	return g.text()
}

func (g *generator) object(s *structural.Structural) map[string]any {
	out := map[string]any{}
	for _, name := range sortedProperties(s) {
		oneIn := 8
		if strings.Contains(g.rule, name) {
			oneIn = 2
		}
		if s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, name) && g.rnd.IntN(8) > 0 {
			oneIn = 1
		}
		if g.rnd.IntN(oneIn) == 0 {
			p := s.Properties[name]
			out[name] = g.value(&p)
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Structural != nil {
		for range g.rnd.IntN(3) {
			out[g.text()] = g.value(a.Structural)
		}
	}
	return out
}

// longestList bounds the length of lists, because a rule that compares each item with all others
// takes quadratic time.
const longestList = 66

// list returns a list of up to four items, some of which are equal or, now and then, a long list.
func (g *generator) list(s *structural.Structural) []any {
	n := g.rnd.IntN(5)
	if g.rnd.IntN(30) == 0 {
		n = int(min(longestList, max(0, pick(g, g.numbers))))
	}
	out := []any{}
	for range n {
		if len(out) > 0 && g.rnd.IntN(4) == 0 {
			out = append(out, runtime.DeepCopyJSONValue(pick(g, out)))
			continue
		}
		out = append(out, g.value(s.Items))
	}
	return out
}
