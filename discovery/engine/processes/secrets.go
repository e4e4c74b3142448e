package processes

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// encoded is the length in bytes from which encodings of a secret are hidden. Shorter ones occur in
// words.
const encoded = 8

func forms(secrets []string) (all []string) {
	for _, s := range secrets {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		all = append(all, s)
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); len(line) >= encoded && line != s {
				all = append(all, line)
			}
		}
		for _, other := range append(escaped(s), quoted(s)...) {
			if other != s {
				all = append(all, other)
			}
		}
		if len(s) >= encoded {
			text := hex.EncodeToString([]byte(s))
			all = append(append(all, text, strings.ToUpper(text)), inBase64(s)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var percent = regexp.MustCompile("%[0-9A-F]{2}")

// escaped returns percent-encodings of a text. Some programs leave slashes, or write lower-case
// hex.
func escaped(s string) []string {
	all := []string{url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(url.PathEscape(s), "%2F", "/"),
		strings.ReplaceAll(url.QueryEscape(s), "+", "%20")}
	for _, text := range all {
		all = append(all, percent.ReplaceAllStringFunc(text, strings.ToLower))
	}
	return all
}

// quoted returns a text as it appears in string literals of JSON, Go and Python.
func quoted(s string) (all []string) {
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if e.Encode(s) == nil {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`))
		}
	}
	ascii := strconv.QuoteToASCII(s)
	python := strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	return append(all, ascii[1:len(ascii)-1], python)
}

// inBase64 returns a text's base64 forms at each offset, without characters that depend on
// neighbours.
func inBase64(s string) (all []string) {
	for before := range 3 {
		raw := append(make([]byte, before), s...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString(raw)
			if len(raw)%3 != 0 {
				text = text[:len(text)-1]
			}
			if text = text[(before*8+5)/6:]; !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// shortening matches the marks that programs print instead of a part of a secret.
var shortening = regexp.MustCompile(`\.{3,}|…|\*{2,}`)

const (
	maxShortened = 1000 // marks in a text
	maxPart      = 64   // bytes of a secret beside a mark
)

// maskShortened hides the beginnings of secrets before such a mark, and their ends after it.
func maskShortened(text []byte, secret []bool, secrets []string) {
	for _, at := range shortening.FindAllIndex(text, maxShortened) {
		before, after := text[:at[0]], text[at[1]:]
		for _, s := range secrets {
			if len(s) < encoded {
				continue
			}
			for n := min(len(s)-1, maxPart); n >= partial; n-- {
				if bytes.HasSuffix(before, []byte(s[:n])) {
					hide(secret[at[0]-n : at[0]])
				}
				if bytes.HasPrefix(after, []byte(s[len(s)-n:])) {
					hide(secret[at[1] : at[1]+n])
				}
			}
		}
	}
}

func hide(secret []bool) {
	for i := range secret {
		secret[i] = true
	}
}
