package envoy

import (
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

var slashes = strings.NewReplacer("%2F", "/", "%2f", "/", "%5C", `\`, "%5c", `\`)

// EscapesSlash reports whether a path has an escaped slash or backslash.
func EscapesSlash(path string) bool { return slashes.Replace(path) != path }

// NormalizePath returns a path without its query as Envoy matches it: after normalize_path
// (Chromium's URL canonicalizer) and merge_slashes. False means that Envoy answers 400.
func NormalizePath(path string) (string, bool) {
	path = withoutParameters(path)
	if path == "" || path[0] != '/' && path[0] != '\\' {
		path = "/" + path
	}
	c := canonical{in: path, invalid: -1}
	for c.at < len(c.in) {
		c.step()
	}
	return mergeSlashes(string(c.out)), !c.failed
}

// Some servers read "/..;x/" as "/../".
func withoutParameters(path string) string {
	if !strings.Contains(path, "/.") || !strings.Contains(path, ";") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if dots, _, ok := strings.Cut(s, ";"); ok && (dots == "." || dots == "..") {
			segments[i] = dots
		}
	}
	return strings.Join(segments, "/")
}

type canonical struct {
	in  string
	at  int
	out []byte
	// invalid is the index, in the field `out`, of the last % that begins no escape, or -1.
	invalid int
	failed  bool
}

func (c *canonical) step() {
	b := c.in[c.at]
	if n := dot(c.in[c.at:]); n > 0 {
		c.dots(n)
		return
	}
	switch {
	case b == '\\':
		c.out = append(c.out, '/')
	case b == '%':
		c.escape()
		return
	case escaped(b):
		const hex = "0123456789ABCDEF"
		c.out = append(c.out, '%', hex[b>>4], hex[b&15])
	default:
		c.out = append(c.out, b)
	}
	c.at++
}

func (c *canonical) dots(n int) {
	after := c.in[c.at+n:]
	c.at += n
	if len(c.out) == 0 || c.out[len(c.out)-1] != '/' {
		c.out = append(c.out, '.')
		return
	}
	second := dot(after)
	switch {
	case after == "":
	case slash(after[0]):
		c.at++
	case second > 0 && second == len(after):
		c.at += second
		c.up()
	case second > 0 && slash(after[second]):
		c.at += second + 1
		c.up()
	default:
		c.out = append(c.out, '.')
	}
}

func (c *canonical) up() {
	if i := strings.LastIndexByte(string(c.out[:len(c.out)-1]), '/'); i >= 0 {
		c.out = c.out[:i+1]
	}
	if c.invalid >= len(c.out) {
		c.invalid = -1
	}
}

func (c *canonical) escape() {
	b, ok := Unescape(c.in[c.at:])
	switch {
	case !ok:
		c.invalid = len(c.out)
		c.out = append(c.out, '%')
		c.at++
		return
	case Unreserved(b):
		c.out = append(c.out, b)
		c.at += 3
		if c.invalid >= 0 && c.invalid+3 >= len(c.out) {
			c.nested()
		}
		return
	case b == 0:
		c.failed = true
	}
	c.out = append(c.out, c.in[c.at:c.at+3]...)
	c.at += 3
}

func (c *canonical) nested() {
	next := len(c.out) == c.invalid+2
	if next && (c.at == len(c.in) || c.in[c.at] >= 0x80) {
		return
	}
	text, last := string(c.out[c.invalid:]), c.out[len(c.out)-1]
	if next {
		text += string(c.in[c.at])
	}
	if _, ok := Unescape(text); !ok {
		return
	}
	if next {
		c.out = append(c.out[:c.invalid+1], '2', '5', last)
		return
	}
	c.out = append(c.out[:c.invalid+1], '2', '5', text[1], last)
}

func dot(s string) int {
	switch {
	case strings.HasPrefix(s, "."):
		return 1
	case strings.HasPrefix(s, "%2e"), strings.HasPrefix(s, "%2E"):
		return 3
	}
	return 0
}

func slash(b byte) bool { return b == '/' || b == '\\' }

// Unescape decodes the percent-escape at the start of s; false if s does not start with an escape.
func Unescape(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(n), err == nil
}

// Unreserved reports whether a byte's escape means the byte itself (RFC 3986, section 2.3).
func Unreserved(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || strings.IndexByte("-._~", b) >= 0
}

func escaped(b byte) bool {
	return b <= ' ' || b >= 0x7f || strings.IndexByte("\"#<>?^`{|}", b) >= 0
}

func mergeSlashes(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	out := "/" + strings.Join(parts, "/")
	if strings.HasSuffix(path, "/") { // keep the trailing slash, even of "//"
		out += "/"
	}
	return out
}

func arrivedPath(action v1alpha1.EscapedSlashes, target string) (path, query string, status uint32) {
	path, query, has := strings.Cut(target, "?")
	if has {
		query = "?" + query
	}
	if EscapesSlash(path) {
		switch action {
		case v1alpha1.KeepEscapes:
		case v1alpha1.RejectEscapes:
			return path, query, 400
		case v1alpha1.UnescapeAndForward:
			path = slashes.Replace(path)
		default:
			path, status = slashes.Replace(path), 307
		}
	}
	path, ok := NormalizePath(path)
	if !ok {
		return path, query, 400
	}
	return path, query, status
}
