package file

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/statefile"
)

// Written is an object as a user wrote it in a file, for commands that edit the file. To edit the
// object, change Node and call Save.
type Written struct {
	Path string // path of the file
	Line int    // first line of the object, from 1
	Name string // metadata.name
	// Node is the object's mapping, with comments and styles.
	Node *yaml.Node

	file          string
	before, after string
	doc           *yaml.Node
}

// FindWritten returns the objects of a kind in the files at or below paths, sorted by name, then by
// file. It fails if a path or file cannot be read. If it finds no object, it also fails if a
// document that contains the kind's name is invalid YAML.
func FindWritten(paths []string, group, kind string) (found []*Written, err error) {
	if err := Exist(paths...); err != nil {
		return nil, err
	}
	var files []string
	var problems []error
	d := newDisk()
	t := tree{disk: d, entered: map[identity]bool{}, file: func(path string, _ bool) { files = append(files, path) },
		fail: func(path string, err error) {
			if !errors.Is(err, errVisited) {
				problems = append(problems, fmt.Errorf("%s: %w", path, err))
			}
		}}
	for _, p := range paths {
		switch info, err := d.stat(p); {
		case err != nil:
			problems = append(problems, err)
		case info.IsDir():
			t.walk(p, 0)
		default:
			files = append(files, p)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.Sort(files)
	var broken error
	for _, path := range slices.Compact(files) {
		raw, err := d.readFile(path)
		if errors.Is(err, filesystem.ErrIrregular) || errors.As(err, new(filesystem.TooLarge)) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if text, ok := decodeText(raw); ok && strings.Contains(text, kind) {
			objects, problem := findIn(path, text, group, kind)
			found, broken = append(found, objects...), cmp.Or(broken, problem)
		}
	}
	if len(found) == 0 && broken != nil {
		return nil, broken
	}
	slices.SortStableFunc(found, func(a, b *Written) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

func findIn(path, text, group, kind string) (found []*Written, broken error) {
	names := regexp.MustCompile(`\bkind["']?\s*:\s*["']?` + regexp.QuoteMeta(kind) + `\b`)
	rest := text
	for _, d := range split(text) {
		begin := len(text) - len(rest) + strings.Index(rest, d.text)
		rest = text[begin+len(d.text):]
		if _, m := parseNode(d.text); m != nil {
			if broken == nil && names.MatchString(d.text) {
				broken = fmt.Errorf("%s:%d: the %s here %s; %s", path, d.line+m.line, kind, m.problem, m.fix)
			}
			continue
		}
		var doc yaml.Node
		if yaml.Unmarshal([]byte(d.text), &doc) != nil {
			continue
		}
		objects := []*yaml.Node{doc.Content[0]}
		if items := Field(doc.Content[0], "items"); items != nil && items.Kind == yaml.SequenceNode {
			objects = append(objects, items.Content...)
		}
		for _, o := range objects {
			version, kindNode := Field(o, "apiVersion"), Field(o, "kind")
			if version == nil || kindNode == nil || kindNode.Value != kind ||
				!strings.HasPrefix(version.Value, group+"/") {
				continue
			}
			w := &Written{Path: path, Line: d.line + o.Line - 1, Node: o, file: text, before: text[:begin], after: rest,
				doc: &doc}
			if metadata := Field(o, "metadata"); metadata != nil {
				if name := Field(metadata, "name"); name != nil {
					w.Name = name.Value
				}
			}
			found = append(found, w)
		}
	}
	return found, broken
}

// Field returns the value of a key, or nil.
func Field(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// SetField sets the value of a key. A new key comes last. A nil value removes the key.
func SetField(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != key {
			continue
		}
		if value == nil {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
		} else {
			mapping.Content[i+1] = value
		}
		return
	}
	if value == nil {
		return
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Value: key}
	if len(mapping.Content) > 0 {
		name.Style = mapping.Content[0].Style // in JSON, keys have quotes
	}
	mapping.Content = append(mapping.Content, name, value)
}

// Save replaces the object in its file. Other documents of the file stay byte for byte. It fails if
// the file has changed since it was read.
func (w *Written) Save() error {
	path, err := filepath.EvalSymlinks(w.Path) // replaces the link's target, not the link
	if err != nil {
		return err
	}
	now, err := newDisk().readFile(path)
	if err != nil {
		return err
	}
	if text, _ := decodeText(now); text != w.file {
		return fmt.Errorf("%s has changed meanwhile: try again", w.Path)
	}
	var out bytes.Buffer
	out.WriteString(w.before)
	begin := strings.Index(w.file[len(w.before):], "\n")
	if first := w.file[len(w.before):]; begin >= 0 && marker(first[:begin+1]) {
		out.WriteString(first[:begin+1])
	}
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if !indentsLists(w.doc) {
		e.CompactSeqIndent()
	}
	if err := errors.Join(e.Encode(w.doc), e.Close()); err != nil {
		return err
	}
	out.WriteString(w.after)
	return statefile.Rewrite(path, out.Bytes())
}

func indentsLists(n *yaml.Node) bool {
	var first func(n *yaml.Node) (indented, found bool)
	first = func(n *yaml.Node) (bool, bool) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 && c.Kind == yaml.SequenceNode && c.Style&yaml.FlowStyle == 0 {
				return c.Column > n.Content[i-1].Column, true
			}
			if indented, ok := first(c); ok {
				return indented, true
			}
		}
		return false, false
	}
	indented, _ := first(n)
	return indented
}
