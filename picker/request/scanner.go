package request

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Facts are the fields of a body that a picker uses.
type Facts struct {
	// Model is the top-level "model", unescaped. It is "" if there is none, if it is not a string, or if it is longer than
	// 6,144 bytes as written. Of several the last is used, as by the model servers' JSON parsers.
	Model string
	// Stream is the top-level "stream": true only for the literal true. Of several the last is used.
	Stream bool
	// Size of the body in bytes.
	Size int
}

const (
	maxKey   = 6 * len("stream") // every character as \uXXXX
	maxModel = 6 * 1024          // as in the script that chooses routes by the model (scan.lua in translator/envoy): 1,024 bytes, all escaped
)

// place is the scanner's position among the members of the top-level object.
type place uint8

const (
	beforeObject place = iota
	beforeKey
	beforeColon
	beforeValue
	afterValue
	outside // after the object, or in a body that is no object
)

type member uint8

const (
	otherMember member = iota
	modelMember
	streamMember
)

// Scanner reads a body chunk by chunk. The zero value is ready for the first chunk.
type Scanner struct {
	size  int
	depth int // of brackets; 1 is inside the top-level object
	place place
	of    member // the member whose value is next, or is being read

	inString bool
	escaped  bool // the chunk before ended in an odd run of backslashes
	limit    int  // of capture, in bytes; 0: the string is not captured
	capture  []byte
	tooLong  bool

	model  []byte // as written, without quotes
	stream bool
}

// Write reads the next chunk. It keeps copies of captured values only.
func (s *Scanner) Write(chunk []byte) {
	s.size += len(chunk)
	for i := 0; i < len(chunk) && s.place != outside; {
		if s.inString {
			i += s.text(chunk[i:])
			continue
		}
		if s.depth > 1 {
			i += s.nested(chunk[i:])
			continue
		}
		s.structure(chunk[i])
		i++
	}
}

// Facts returns the facts of the chunks written so far.
func (s *Scanner) Facts() Facts {
	return Facts{Model: unquote(s.model), Stream: s.stream, Size: s.size}
}

// text reads inside a string, up to and including its closing quote, and returns how many bytes it took.
func (s *Scanner) text(p []byte) int {
	from := 0
	if s.escaped { // p[0] belongs to an escape and does not close the string
		from = 1
		s.escaped = false
	}
	for {
		q := bytes.IndexByte(p[from:], '"')
		end := from + q
		if q < 0 {
			end = len(p)
		}
		odd := false
		for k := end - 1; k >= from && p[k] == '\\'; k-- {
			odd = !odd
		}
		if q < 0 {
			s.escaped = odd
			s.keep(p)
			return len(p)
		}
		if !odd {
			s.keep(p[:end])
			s.endString()
			return end + 1
		}
		from = end + 1
	}
}

func (s *Scanner) keep(p []byte) {
	if s.limit == 0 {
		return
	}
	if len(s.capture)+len(p) > s.limit {
		s.tooLong = true
		return
	}
	s.capture = append(s.capture, p...)
}

func (s *Scanner) endString() {
	s.inString = false
	if s.depth != 1 {
		return
	}
	switch s.place {
	case beforeKey:
		s.of = otherMember
		if !s.tooLong {
			s.of = memberOf(s.capture)
		}
		s.place = beforeColon
	case beforeValue:
		if s.of == modelMember && !s.tooLong {
			s.model = append(s.model[:0], s.capture...)
		}
		s.place = afterValue
	}
}

func memberOf(key []byte) member {
	if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(unquote(key))
	}
	switch string(key) {
	case "model":
		return modelMember
	case "stream":
		return streamMember
	}
	return otherMember
}

// nested skips bytes below the top-level members, up to a quote or a closing bracket, and returns how many it took.
func (s *Scanner) nested(p []byte) int {
	for i, c := range p {
		switch c {
		case '"':
			s.inString, s.limit = true, 0
			return i + 1
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth--; s.depth == 1 {
				s.place = afterValue
				return i + 1
			}
		}
	}
	return len(p)
}

// structure reads one byte of the top-level object that is not inside a string.
func (s *Scanner) structure(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '{':
		if s.place == beforeObject {
			s.depth, s.place = 1, beforeKey
			return
		}
	case '}':
		s.place = outside
		return
	case ',':
		s.place = beforeKey
		return
	case ':':
		if s.place == beforeColon {
			s.place = beforeValue
			s.reset()
			return
		}
	}
	switch s.place {
	case beforeObject:
		s.place = outside
	case beforeKey:
		if c == '"' {
			s.open(maxKey)
		}
	case beforeValue:
		s.value(c)
	}
}

// reset drops the earlier value of a repeated member.
func (s *Scanner) reset() {
	switch s.of {
	case modelMember:
		s.model = s.model[:0]
	case streamMember:
		s.stream = false
	}
}

// value reads the first byte of a member's value.
func (s *Scanner) value(c byte) {
	switch c {
	case '"':
		limit := 0
		if s.of == modelMember {
			limit = maxModel
		}
		s.open(limit)
	case '{', '[':
		s.depth++
	default:
		s.stream = s.of == streamMember && c == 't' || s.of != streamMember && s.stream
		s.place = afterValue
	}
}

func (s *Scanner) open(limit int) {
	s.inString, s.limit, s.capture, s.tooLong = true, limit, s.capture[:0], false
}

// unquote resolves JSON escapes. It returns "" for an invalid string.
func unquote(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var out string
	if json.Unmarshal(quoted, &out) != nil {
		return ""
	}
	return out
}
