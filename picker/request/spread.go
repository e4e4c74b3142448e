package request

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"hash"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

var errBroken = errors.New("it is not JSON, or nests deeper than 512 levels; send one JSON object")

const maxNesting = 512 // levels of objects and arrays

// Spread hashes a body for the strategy "chwbl" (consistent hashing with bounded loads), chunk by
// chunk.
type Spread struct {
	kind      Kind
	users     int
	sum       hash.Hash
	body, key []byte
}

var spreads = sync.Pool{New: func() any { return &Spread{sum: md5.New()} }}

// NewSpread returns a Spread for a key of at most users user messages (SpreadKey).
func NewSpread(kind Kind, users int) *Spread {
	s := spreads.Get().(*Spread)
	s.kind, s.users = kind, users
	return s
}

// Holds returns how many bytes of memory the next n bytes of the body take until Release.
func (s *Spread) Holds(n int) int {
	if s.kind != ChatCompletions {
		return 0
	}
	return n
}

// Write reads the next chunk of the body. It copies only chat completions.
func (s *Spread) Write(chunk []byte) {
	if s.kind == ChatCompletions {
		s.body = append(s.body, chunk...)
		return
	}
	_, _ = s.sum.Write(chunk)
}

// Sum returns the first 8 bytes of the MD5 hash of the body's key as a number; 1 instead of 0. The
// error is SpreadKey's.
func (s *Spread) Sum() (uint64, error) {
	if s.kind == ChatCompletions {
		key, err := SpreadKey(s.kind, s.users, s.body, s.key)
		if err != nil {
			return 0, err
		}
		_, _ = s.sum.Write(key)
		if cap(key) > cap(s.key) && (len(s.body) == 0 || len(key) == 0 || &key[0] != &s.body[0]) {
			s.key = key
		}
	}
	var sum [md5.Size]byte
	return max(1, binary.BigEndian.Uint64(s.sum.Sum(sum[:0]))), nil
}

// Release ends the use of s. The memory is reused.
func (s *Spread) Release() {
	s.sum.Reset()
	if s.body, s.key = s.body[:0], s.key[:0]; cap(s.body)+cap(s.key) > maxKept {
		s.body, s.key = nil, nil
	}
	spreads.Put(s)
}

// SpreadKey returns the text whose hash selects a server in the strategy "chwbl", as in Neutree's
// router. For a chat completion it consists of the first user messages, at most users, and of the
// last system message before the last of them:
//
//	system:You are helpful.|user_0:Hello|user_1:Bye
//
// For a chat completion without messages, and for any other kind, the key is the body. The key uses
// the memory of body, or of buffer if it fits there. A chat completion must be JSON.
func SpreadKey(kind Kind, users int, body, buffer []byte) (key []byte, err error) {
	if kind != ChatCompletions {
		return body, nil
	}
	r := spreadReader{b: body, users: users}
	if !r.body() {
		return nil, errBroken
	}
	key = buffer[:0]
	if r.hasSystem {
		key = append(key, "system:"...)
		if key = appendContent(key, r.system); len(key) == len("system:") {
			key = key[:0]
		}
	}
	for i, content := range r.found {
		if len(key) > 0 {
			key = append(key, '|')
		}
		key = append(appendInt(append(key, "user_"...), i), ':')
		key = appendContent(key, content)
	}
	if len(key) == 0 {
		return body, nil
	}
	return key, nil
}

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

type spreadReader struct {
	b         []byte
	depth     int
	users     int
	hasSystem bool
	system    []byte
	found     [][]byte
}

func (r *spreadReader) space() {
	for len(r.b) > 0 && (r.b[0] == ' ' || r.b[0] == '\n' || r.b[0] == '\t' || r.b[0] == '\r') {
		r.b = r.b[1:]
	}
}

func (r *spreadReader) take(c byte) bool {
	if r.space(); len(r.b) == 0 || r.b[0] != c {
		return false
	}
	r.b = r.b[1:]
	return true
}

func (r *spreadReader) at(c byte) bool {
	r.space()
	return len(r.b) > 0 && r.b[0] == c
}

func (r *spreadReader) body() bool {
	ok := false
	if r.at('{') {
		ok = r.object(func(key []byte) bool {
			if !equals(key, "messages") {
				return r.skip()
			}
			r.hasSystem, r.system, r.found = false, nil, r.found[:0] // of several members with a name, the last counts
			if !r.at('[') {
				return r.skip()
			}
			return r.array(r.message)
		})
	} else {
		ok = r.skip()
	}
	r.space()
	return ok && len(r.b) == 0
}

func (r *spreadReader) message() bool {
	if !r.at('{') {
		return r.skip()
	}
	var role, content []byte
	ok := r.object(func(key []byte) bool {
		r.space()
		from := r.b
		if !r.skip() {
			return false
		}
		text := from[:len(from)-len(r.b)]
		switch {
		case equals(key, "role"):
			role = text
		case equals(key, "content"):
			content = text
		}
		return true
	})
	if !ok || len(r.found) >= r.users || len(role) < 2 || role[0] != '"' {
		return ok
	}
	switch role = role[1 : len(role)-1]; {
	case equals(role, "system"):
		r.hasSystem, r.system = true, content
	case equals(role, "user"):
		r.found = append(r.found, content)
	}
	return true
}

func (r *spreadReader) object(member func(key []byte) bool) bool {
	return r.list('{', '}', func() bool {
		key, ok := r.text()
		return ok && r.take(':') && member(key)
	})
}

func (r *spreadReader) array(element func() bool) bool { return r.list('[', ']', element) }

func (r *spreadReader) list(open, end byte, element func() bool) bool {
	if r.depth++; r.depth > maxNesting || !r.take(open) {
		return false
	}
	if !r.take(end) {
		for {
			if !element() {
				return false
			}
			if r.take(end) {
				break
			}
			if !r.take(',') {
				return false
			}
		}
	}
	r.depth--
	return true
}

func (r *spreadReader) text() ([]byte, bool) {
	if !r.take('"') {
		return nil, false
	}
	for from := 0; ; {
		q := bytes.IndexByte(r.b[from:], '"')
		if q < 0 {
			return nil, false
		}
		end := from + q
		escapes := 0
		for k := end - 1; k >= 0 && r.b[k] == '\\'; k-- {
			escapes++
		}
		if escapes%2 == 0 {
			text := r.b[:end]
			r.b = r.b[end+1:]
			return text, true
		}
		from = end + 1
	}
}

func (r *spreadReader) optional(text *[]byte) bool {
	if !r.at('"') {
		return r.skip()
	}
	read, ok := r.text()
	*text = read
	return ok
}

func (r *spreadReader) skip() bool {
	r.space()
	if len(r.b) == 0 {
		return false
	}
	switch c := r.b[0]; {
	case c == '"':
		_, ok := r.text()
		return ok
	case c == '{':
		return r.object(func([]byte) bool { return r.skip() })
	case c == '[':
		return r.array(r.skip)
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if rest, ok := bytes.CutPrefix(r.b, []byte(word)); ok {
			r.b = rest
			return true
		}
	}
	return false
}

func (r *spreadReader) number() bool {
	digits := func() bool {
		n := 0
		for n < len(r.b) && r.b[n] >= '0' && r.b[n] <= '9' {
			n++
		}
		r.b = r.b[n:]
		return n > 0
	}
	next := func(set string) bool {
		if len(r.b) == 0 || strings.IndexByte(set, r.b[0]) < 0 {
			return false
		}
		r.b = r.b[1:]
		return true
	}
	next("-")
	if !next("0") && !digits() {
		return false
	}
	if next(".") && !digits() {
		return false
	}
	if next("eE") {
		next("+-")
		return digits()
	}
	return true
}

func equals(written []byte, word string) bool {
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written) == word
	}
	return string(appendText(nil, written)) == word
}

func appendContent(b, content []byte) []byte {
	if len(content) == 0 {
		return b
	}
	r := spreadReader{b: content}
	if content[0] == '"' {
		text, _ := r.text()
		return appendText(b, text)
	}
	if content[0] != '[' {
		return b
	}
	r.array(func() bool {
		if !r.at('{') {
			return r.skip()
		}
		var text []byte
		kind := []byte("text")
		ok := r.object(func(key []byte) bool {
			switch {
			case equals(key, "text"):
				text = nil
				return r.optional(&text)
			case equals(key, "type"):
				kind = nil
				return r.optional(&kind)
			}
			return r.skip()
		})
		if equals(kind, "text") {
			b = appendText(b, text)
		}
		return ok
	})
	return b
}

func appendText(b, written []byte) []byte {
	for {
		i := bytes.IndexByte(written, '\\')
		if i < 0 || i+1 == len(written) {
			return append(b, written...)
		}
		b = append(b, written[:i]...)
		c := written[i+1]
		written = written[i+2:]
		switch c {
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'r':
			b = append(b, '\r')
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'u':
			var point rune
			point, written = codePoint(written)
			if utf16.IsSurrogate(point) && len(written) > 1 && written[0] == '\\' && written[1] == 'u' {
				if low, rest := codePoint(written[2:]); utf16.DecodeRune(point, low) != utf8.RuneError {
					point, written = utf16.DecodeRune(point, low), rest
				}
			}
			b = utf8.AppendRune(b, point)
		default:
			b = append(b, c)
		}
	}
}

func codePoint(b []byte) (point rune, rest []byte) {
	if len(b) < 4 {
		return utf8.RuneError, nil
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			point = point<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			point = point<<4 | rune(c|0x20-'a'+10)
		default:
			return utf8.RuneError, b[4:]
		}
	}
	return point, b[4:]
}
