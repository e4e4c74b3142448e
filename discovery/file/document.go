package file

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// document is one YAML document of a file. Line numbers in it are relative to its first line, so
// edits above it need no new parse.
type document struct {
	text     string // "" once the document has been read
	digest   digest // hash of text
	line     int    // the document's first line in the file, from 1
	number   int    // the document's position in the file, from 1
	objects  []*object
	mistakes []mistake
	// unidentified means that some part of the document is too broken to find its object's name.
	// The document may then define any object that the file had before.
	unidentified bool
	unreadable   bool // the document is a file that is not UTF-8; its text has the readable characters
	access       bool // a part without an identified object has spec.access (closed_deployment.go)

	lines map[position]int // line numbers that Locate found; guarded by Reader.parsing
}

type position struct {
	item  int
	field string
}

const maxLines = 1024

type object struct {
	ref      report.Ref
	kind     *kind // nil: Penstock does not read the kind
	line     int   // the object's first line, relative to the document
	item     int   // position in a List's items; -1 if the document is the object
	good     *good
	closed   store.Object // replaces the object if it has no good form (closed.go); nil for most kinds
	access   bool         // the document has spec.access
	unnamed  bool         // the name in ref is not written: it is a digest of the document
	mistakes []mistake
	moved    []move
}

type mistake struct {
	severity report.Severity
	line     int // relative to the document's first line
	first    int // the line of a duplicate key's first occurrence, from 1 within the document; else 0
	broken   bool
	denied   bool // a file or folder that penstock is not permitted to read
	field    string
	problem  string
	fix      string
}

func split(content string) []*document {
	var docs []*document
	line, start, startLine := 1, 0, 1
	cut := func(end int) {
		if text := content[start:end]; !blank(text) {
			docs = append(docs, &document{text: text, line: startLine})
		}
	}
	for at := 0; at < len(content); {
		next := len(content)
		if i := strings.IndexByte(content[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if at > start && marker(content[at:next]) {
			cut(at)
			start, startLine = at, line
		}
		at = next
		line++
	}
	cut(len(content))
	return docs
}

func marker(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	return ok && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

func blank(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && line != "..." && line[0] != '#' {
			return false
		}
	}
	return true
}

// decodeText returns the text of a UTF-8 file. For other files, ok is false, and text has only the
// ASCII characters.
func decodeText(raw []byte) (text string, ok bool) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return string(raw), true
	}
	other := func(b byte) bool { return b == 0 || b >= utf8.RuneSelf }
	return string(slices.DeleteFunc(slices.Clone(raw), other)), false
}
