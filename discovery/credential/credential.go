package credential

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// KeyMark is part of each private key in PEM.
const KeyMark = "PRIVATE KEY-----"

// hidden stands for a credential within a text.
const hidden = "redacted"

// Redacted stands for a value of n bytes.
func Redacted(n int) string { return fmt.Sprintf("redacted: %d bytes", n) }

// Named reports whether values of a header, query parameter or annotation of a name authenticate a
// client. Names of camel case, and with any separators, count as well.
func Named(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, part := range parts {
		if strings.Contains(name, part) && name != ":authority" && name != "set-cookie" { // all clients receive the latter
			return true
		}
	}
	return slices.ContainsFunc(strings.FieldsFunc(name, separates), func(word string) bool { return slices.Contains(words, word) })
}

// parts of a name, and whole words of it, that mean a credential.
var (
	parts = []string{
		"auth", "cookie", "token", "secret", "password", "passwd", "credential", "apikey", "signature", "bearer", "accesskey",
	}
	words = []string{"key", "keys", "sig", "jwt", "pwd", "pass", "session", "sid", "sas", "otp"}
)

func separates(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }

// Value returns what pages print of the value of a header, query parameter or annotation.
func Value(name, value string) string {
	if Named(name) {
		return Redacted(len(value))
	}
	return Text(value)
}

var (
	parameter = regexp.MustCompile(`([?&#])([^=&?#\s"']+)=([^&#\s"'\\]+)`)
	userinfo  = regexp.MustCompile(`(//)?[^\s/?#@"'=]*@`)
	scheme    = regexp.MustCompile(`(?i)\b(bearer|basic|digest|token)((?:[ :+]|%20)+)([A-Za-z0-9+/=._~-]{8,})`)
	prefixed  = regexp.MustCompile(`\b(?:sk|gsk|hf|ghp|gho|ghs|glpat|xoxb|xoxp|nvapi)[-_][A-Za-z0-9_-]{16,}`)
	signed    = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)*`)
)

// Text returns a text without the credentials that are in it by their form: private keys in PEM, the
// userinfo of URLs, parameters of a query that are Named, what follows a scheme of
// Authorization, JSON web tokens, and keys with the prefixes of known issuers.
func Text(s string) string {
	if strings.Contains(s, KeyMark) {
		return Redacted(len(s))
	}
	if strings.ContainsRune(s, '=') && strings.ContainsAny(s, "?&#") {
		s = parameter.ReplaceAllStringFunc(s, withoutParameter)
	}
	if strings.ContainsRune(s, '@') {
		s = withoutUserinfo(s)
	}
	if containsAny(s, "earer", "asic", "igest", "oken", "EARER", "ASIC", "OKEN") {
		s = scheme.ReplaceAllStringFunc(s, func(found string) string {
			part := scheme.FindStringSubmatch(found)
			return part[1] + part[2] + ifRandom(part[3])
		})
	}
	if containsAny(s, "sk", "hf", "gh", "glpat", "xox", "nvapi") {
		s = prefixed.ReplaceAllStringFunc(s, ifRandom)
	}
	if strings.Contains(s, "eyJ") {
		s = signed.ReplaceAllString(s, hidden)
	}
	return s
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// withoutParameter is a parameter of a query, with the character before it.
func withoutParameter(found string) string {
	part := parameter.FindStringSubmatch(found)
	name, err := url.QueryUnescape(part[2])
	if err != nil || Named(name) {
		return part[1] + part[2] + "=" + hidden
	}
	return found
}

// withoutUserinfo hides what is before the @ of a URL, or of a host with a password. The digest of an
// image follows an @, too.
func withoutUserinfo(s string) string {
	var out strings.Builder
	end := 0
	for _, at := range userinfo.FindAllStringIndex(s, -1) {
		found := s[at[0]:at[1]]
		rest, slashes := strings.CutPrefix(found, "//")
		user, password, both := strings.Cut(rest, ":")
		if strings.HasPrefix(s[at[1]:], "sha256:") || !slashes && (!both || !isWord(user) || password == "") {
			continue
		}
		out.WriteString(s[end:at[0]])
		if slashes {
			out.WriteString("//")
		}
		out.WriteString(hidden + "@")
		end = at[1]
	}
	return out.String() + s[end:]
}

// isWord reports whether a text may be the name of a user.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return strings.ContainsRune("[](){}|\\,;!$&*+^~", r) })
}

// ifRandom hides a text with a digit. Words of a sentence have none.
func ifRandom(s string) string {
	if strings.ContainsAny(s, "0123456789") {
		return hidden
	}
	return s
}
