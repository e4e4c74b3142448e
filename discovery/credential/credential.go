package credential

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// KeyMark is a text that each private key in PEM contains.
const KeyMark = "PRIVATE KEY-----"

const hidden = "redacted"

// Redacted returns the text that replaces a hidden value of n bytes.
func Redacted(n int) string { return fmt.Sprintf("redacted: %d bytes", n) }

// Named reports whether a header, query parameter or annotation with this name holds a credential.
// Names of tokenizers, authors and token counts do not match.
func Named(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if containsAny(name, "token", "author") {
		name = harmless.ReplaceAllString(name, "")
	}
	for _, part := range parts {
		// The header set-cookie holds no secret, because each client receives it.
		if strings.Contains(name, part) && name != ":authority" && name != "set-cookie" {
			return true
		}
	}
	return slices.ContainsFunc(strings.FieldsFunc(name, separates),
		func(word string) bool { return slices.Contains(words, word) })
}

var (
	parts = []string{
		"auth", "cookie", "token", "secret", "password", "passwd", "credential", "apikey", "signature", "bearer",
		"accesskey",
	}
	words = []string{"key", "keys", "sig", "jwt", "pwd", "pass", "session", "sid", "sas", "otp"}
)

var harmless = regexp.MustCompile(`\b(?:max|min|num|input|output|prompt|completion|total)` +
	`(?:-?(?:new|input|output|prompt|completion))?-?tokens\b|\btokeni[sz]ers?\b|\bauthors?\b`)

func separates(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }

// Value returns the value of a header, query parameter or annotation in a form that may be printed.
// It hides the whole value if Named(name), and credentials within the value otherwise.
func Value(name, value string) string {
	if Named(name) {
		return Redacted(len(value))
	}
	return Text(value)
}

var (
	parameter = regexp.MustCompile(`(?:[?&#]|; ?)([^=&?#;\s"']+)=`)
	userinfo  = regexp.MustCompile(`//[^\s/?#"']*@|[^\s/?#@"'=]*@`)
	bearer    = regexp.MustCompile(`(?i)\b(bearer(?:[ :+]|%20)+)[^\s"'\\$|(),;]{16,}`)
	scheme    = regexp.MustCompile(`(?i)\b(bearer|basic|digest|token)((?:[ :+]|%20)+)([A-Za-z0-9+/=._~-]{4,})`)
	signed    = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)*`)
)

// prefixed matches API keys that begin with the prefix of their issuer. Names of models and
// Kubernetes objects do not match, because they have no underscore after hf, and no long part after
// sk.
var prefixed = regexp.MustCompile(`\b(?:(?:hf|gsk|gh[a-z]|github_pat|sk)_[A-Za-z0-9_-]{16,}` +
	`|(?:glpat|xoxb|xoxp|nvapi)[-_][A-Za-z0-9_-]{16,}` +
	`|(?:AKIA|ASIA)[A-Z2-7]{16}\b|AIza[A-Za-z0-9_-]{35}` +
	`|sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}` +
	`|sk-(?:[A-Za-z0-9_]*-)*[A-Za-z0-9_]{20,}[A-Za-z0-9_-]*)`)

// Text returns s without the credentials that it recognizes by their form: private keys in PEM, the
// userinfo of URLs, query parameters whose names are Named, credentials after a scheme of the
// header Authorization, JSON Web Tokens, and API keys with the prefixes of known issuers.
func Text(s string) string {
	if strings.Contains(s, KeyMark) {
		return Redacted(len(s))
	}
	if strings.ContainsRune(s, '=') && strings.ContainsAny(s, "?&#;") {
		s = withoutParameters(s)
	}
	if strings.ContainsRune(s, '@') {
		s = withoutUserinfo(s)
	}
	if containsAny(strings.ToLower(s), "bearer", "basic", "digest", "token") {
		s = bearer.ReplaceAllString(s, "${1}"+hidden)
		s = scheme.ReplaceAllStringFunc(s, withoutScheme)
	}
	if containsAny(s, "sk", "hf", "gh", "glpat", "xox", "nvapi", "AKIA", "ASIA", "AIza") {
		s = prefixed.ReplaceAllStringFunc(s, ifRandom)
	}
	if strings.Contains(s, "eyJ") {
		s = signed.ReplaceAllString(s, hidden)
	}
	return s
}

var objectName = regexp.MustCompile(`^[a-z0-9][-a-z0-9./]*$`)

// ObjectName returns s unchanged if it has the form of a Kubernetes name or of NAMESPACE/NAME.
// Otherwise it returns Text(s).
func ObjectName(s string) string {
	if objectName.MatchString(s) {
		return s
	}
	return Text(s)
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

func withoutParameters(s string) string {
	var out strings.Builder
	for {
		at := parameter.FindStringSubmatchIndex(s)
		if at == nil {
			return out.String() + s
		}
		out.WriteString(s[:at[1]])
		name, err := url.QueryUnescape(s[at[2]:at[3]])
		s = s[at[1]:]
		if err == nil && !Named(name) {
			continue
		}
		end := strings.IndexAny(s, "&#\"'\\ \t\n\f\r")
		if end < 0 {
			end = len(s)
		}
		if end > 0 {
			out.WriteString(hidden)
		}
		s = s[end:]
	}
}

func withoutScheme(found string) string {
	part := scheme.FindStringSubmatch(found)
	if strings.EqualFold(part[1], "basic") && isUser(part[3]) {
		return part[1] + part[2] + hidden
	}
	if len(part[3]) < 8 {
		return found
	}
	return part[1] + part[2] + ifRandom(part[3])
}

func isUser(s string) bool {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "=."))
	decoded, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil && strings.Contains(string(decoded), ":")
}

// digest follows the @ in the name of a container image. This @ does not end the userinfo of a URL.
const digest = "sha256:"

func withoutUserinfo(s string) string {
	var out strings.Builder
	end := 0
	for _, at := range userinfo.FindAllStringIndex(s, -1) {
		found := s[at[0]:at[1]]
		// This @ belongs to the name of an image, so the userinfo ends at an earlier @.
		if strings.HasPrefix(s[at[1]:], digest) {
			found = found[:strings.LastIndexByte(found[:len(found)-1], '@')+1]
		}
		rest, slashes := strings.CutPrefix(found, "//")
		user, password, both := strings.Cut(rest, ":")
		if found == "" || !slashes && (!both || !isWord(user) || password == "") {
			continue
		}
		out.WriteString(s[end:at[0]])
		if slashes {
			out.WriteString("//")
		}
		out.WriteString(hidden + "@")
		end = at[0] + len(found)
	}
	return out.String() + s[end:]
}

func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return strings.ContainsRune("[](){}|\\,;!$&*+^~", r)
	})
}

// ifRandom hides a text that contains a digit. Texts without digits may be words of a sentence.
func ifRandom(s string) string {
	if strings.ContainsAny(s, "0123456789") {
		return hidden
	}
	return s
}
