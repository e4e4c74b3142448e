package file

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// YAML aliases may expand without bound. So maxDepth bounds the nesting of a document, and
// maxExpanded the number of its values.
const (
	maxDepth    = 100
	maxExpanded = 100_000
)

func parseNode(text string) (*yaml.Node, *mistake) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		m := syntaxMistake(err)
		if line, found := brokenLine(text); found {
			m.line = line
		}
		return nil, m
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil,
			&mistake{severity: report.Error, broken: true, problem: "is not one YAML document",
				fix: "separate documents with a line ---"}
	}
	// A document ends at a line "...", or after a value such as {}. The text after it is lost.
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &mistake{severity: report.Error, broken: true, line: max(0, more.Line-1),
			problem: "has more text after the end of a YAML document", fix: "separate documents with a line ---"}
	}
	return doc.Content[0], nil
}

// syntaxMistake converts an error of the YAML library to a mistake. The line in the error is the
// first line of the broken mapping, list or text.
func syntaxMistake(err error) *mistake {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	m := &mistake{severity: report.Error, broken: true,
		fix: "check indentation, quotes and brackets in this line and the one above"}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if n, msg, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(n); err == nil && line > 0 {
				m.line, text = line-1, msg
			}
		}
	}
	switch {
	case strings.HasPrefix(text, "unknown anchor "): // the name of the anchor may be a password
		text, m.fix = "a value names an unknown anchor", "put a value that begins with * in quotes"
	case strings.Contains(text, "found character that cannot start any token"):
		m.fix = "indent with spaces, not tabs; put values that start with @, ` or % in quotes"
	case strings.Contains(text, "mapping values are not allowed"):
		m.fix = `put the value in quotes if it contains ": ", or correct the indentation`
	}
	m.problem = "is not YAML: " + text
	return m
}

type entry struct {
	key, value *yaml.Node
	merged     bool
}

func target(n *yaml.Node) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.AliasNode && i < maxDepth; i++ {
		n = n.Alias
	}
	return n
}

type parser struct {
	mistakes []mistake
	expanded int
	aliases  int
	tooMuch  bool
}

func (p *parser) wrong(n *yaml.Node, path, problem, fix string) {
	p.mistakes = append(p.mistakes,
		mistake{severity: report.Error, line: n.Line - 1, field: path, problem: problem, fix: fix})
}

// value converts a YAML node to map[string]any, []any, string, bool, int64, float64 or nil.
func (p *parser) value(n *yaml.Node, path string, depth int) any {
	if p.aliases > 0 {
		p.expanded++
	}
	if depth > maxDepth || p.expanded > maxExpanded {
		if !p.tooMuch {
			p.tooMuch = true
			p.wrong(n, path, "is nested too deeply, or aliases expand to too many values",
				"write it out without anchors and aliases")
		}
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		p.aliases++
		v := p.value(n.Alias, path, depth+1)
		p.aliases--
		return v
	case yaml.MappingNode:
		return p.mapping(n, path, depth)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			list[i] = p.value(c, path+"["+strconv.Itoa(i)+"]", depth+1)
		}
		return list
	case yaml.ScalarNode:
		return p.scalar(n, path)
	}
	p.wrong(n, path, "is not a YAML value", "")
	return nil
}

func (p *parser) mapping(n *yaml.Node, path string, depth int) map[string]any {
	entries := p.entries(n, path, depth)
	m := make(map[string]any, len(entries))
	first := make(map[string]int, len(entries))
	for _, e := range entries {
		key := e.key.Value
		at := join(path, key)
		if line, twice := first[key]; twice {
			if !e.merged { // a key that is written in the mapping overrides a merged key
				p.wrong(e.key, at, "is a duplicate key", "keep one of them")
				p.mistakes[len(p.mistakes)-1].first = line
			}
			continue
		}
		first[key] = e.key.Line
		m[key] = p.value(e.value, at, depth+1)
	}
	return m
}

func (p *parser) entries(n *yaml.Node, path string, depth int) []entry {
	own := make([]entry, 0, len(n.Content)/2)
	var merged []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			p.wrong(n.Content[i], path, "has a key that is not a scalar", "write keys as plain strings")
			continue
		}
		if k.ShortTag() != "!!merge" {
			own = append(own, entry{key: k, value: v})
			continue
		}
		sources := []*yaml.Node{target(v)}
		if sources[0] != nil && sources[0].Kind == yaml.SequenceNode {
			sources = sources[0].Content
		}
		for _, s := range sources {
			s = target(s)
			p.expanded++
			if s == nil || s.Kind != yaml.MappingNode || depth > maxDepth || p.expanded > maxExpanded {
				p.wrong(k, path, "merges (<<) something that is not a mapping", "merge an anchor that names a mapping")
				continue
			}
			for _, e := range p.entries(s, path, depth+1) {
				p.expanded++
				e.merged = true
				merged = append(merged, e)
			}
		}
	}
	return append(own, merged...)
}

func (p *parser) scalar(n *yaml.Node, path string) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
		return p.float(n, path)
	case "!!float":
		return p.float(n, path)
	case "!!binary":
		var s string
		if err := n.Decode(&s); err != nil {
			p.wrong(n, path, "is not base64", "write the value as base64, or without !!binary")
		}
		return s
	}
	return n.Value
}

func (p *parser) float(n *yaml.Node, path string) any {
	var f float64
	if n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		p.wrong(n, path, fmt.Sprintf("is not a finite number: %s", n.Value), "write a plain number")
		return nil
	}
	return f
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	if strings.ContainsAny(key, ".[]/") {
		return path + "[" + key + "]"
	}
	return path + "." + key
}
