package processes

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-project/penstock/discovery/credential"
)

const (
	wordsRead  = 64 << 10 // bytes of a log's end in which secrets are searched
	wordsKept  = 2 << 10
	wordsLines = 20
	// partial is the length, in bytes, from which a secret's beginning at a log's end is hidden.
	partial = 4
	hidden  = "[redacted]"
)

var escapes = regexp.MustCompile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|.)")

// lastWords returns the end of a log without secrets, control characters and colours. If the text
// is not whole, it drops as many bytes at the start as the longest secret has, because a part of a
// secret may be there.
func lastWords(text []byte, whole bool, secrets []string) string {
	text, secret := mask(text, whole, secrets)
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case !secret[i]:
			b.WriteByte(text[i])
		case i == 0 || !secret[i-1]:
			b.WriteString(hidden)
		}
	}
	clean := escapes.ReplaceAllString(b.String(), "")
	clean = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ReplaceAll(clean, "\r", "\n"))
	return shorten(credential.Text(clean))
}

func shorten(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines[max(0, len(lines)-wordsLines):], "\n")
	if over := len(text) - wordsKept; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
	}
	return text
}

func mask(text []byte, whole bool, secrets []string) (rest []byte, secret []bool) {
	secret = make([]bool, len(text))
	maskShortened(text, secret, secrets)
	longest := 0
	for _, s := range forms(secrets) {
		longest = max(longest, len(s))
		for at, marked := 0, 0; ; at++ {
			i := bytes.Index(text[at:], []byte(s))
			if i < 0 {
				break
			}
			at += i
			for j := max(at, marked); j < at+len(s); j++ {
				secret[j] = true
			}
			marked = at + len(s)
		}
		for n := min(len(s)-1, len(text)); n >= partial; n-- {
			if bytes.HasSuffix(text, []byte(s[:n])) {
				for j := len(text) - n; j < len(text); j++ {
					secret[j] = true
				}
				break
			}
		}
	}
	if whole {
		return text, secret
	}
	cut := min(longest, len(text))
	return text[cut:], secret[cut:]
}
