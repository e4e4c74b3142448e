package file

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// document is one YAML document of a file, and what came of it. Lines in it are relative to its first line, so that
// a document that only moved within its file is not read again.
type document struct {
	text     string
	line     int       // of its first line in the file, from 1
	objects  []*object // what it describes, good or bad
	mistakes []mistake // those that belong to no object
	// nameless says that some part of it could not be read far enough to tell whose it is: objects that the file
	// had before may still be meant.
	nameless bool
}

// object is one object as one document describes it.
type object struct {
	ref      report.Ref
	kind     *kind // nil: nobody reads it
	line     int   // of its first line, relative to the document
	item     int   // position in a List's items; -1 if the document is the object
	good     *good
	mistakes []mistake
	moved    []move
}

// mistake is a finding before its file and place in the file are known.
type mistake struct {
	severity report.Severity
	line     int // relative to the document's first line; 0 is that line
	first    int // for what is there twice: where it is first, counted from 1 within the document; 0 for all else
	field    string
	problem  string
	fix      string
}

// split cuts a file into documents at the lines that start with the document marker, which YAML allows nowhere else.
// Documents of nothing but comments are left out.
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

// blank says whether a text holds nothing but comments, markers and white space.
func blank(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && line != "..." && line[0] != '#' {
			return false
		}
	}
	return true
}

// decodeText makes UTF-8 of a file's bytes: a byte order mark goes; ok is false for anything else, such as UTF-16.
func decodeText(raw []byte) (text string, ok bool) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return "", false
	}
	return string(raw), true
}
