package jwt

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of an Identity, as of an APIKey: the lengths of strings, in bytes, and the numbers of
// groups and models.
const (
	maxOwner, maxGroups, maxGroup = 128, 32, 128
	maxModels, maxModel           = 64, 256
	maxObjective                  = 253
)

// ErrExpired is the error for a token from the right issuer and for the right audience that has no
// exp, or whose exp has passed.
var ErrExpired = errors.New("it has expired, or never does")

// skew is how far the issuer's clock may be ahead of ours for nbf; exp is compared exactly.
const skew = time.Minute

var (
	errForm     = errors.New("it is no token with one signature of an asymmetric algorithm")
	errKey      = errors.New("no key of its issuer has signed it")
	errClaims   = errors.New("its claims are no JSON object")
	errIssuer   = errors.New("it is of another issuer")
	errAudience = errors.New("it is for another audience")
	errEarly    = errors.New("it does not count yet")
	errOwner    = errors.New("it does not name its owner")
)

type claims map[string]any

func parseClaims(payload []byte) (claims, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var c claims
	if err := d.Decode(&c); err != nil || c == nil || d.More() {
		return nil, errClaims
	}
	return c, nil
}

// find returns the claim with a name, or else at a path of names with dots between them; nil for
// "".
func (c claims) find(name string) any {
	if name == "" {
		return nil
	}
	if v, ok := c[name]; ok {
		return v
	}
	var at any = map[string]any(c)
	for part := range strings.SplitSeq(name, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[part]
	}
	return at
}

func (c claims) text(name string) string {
	text, _ := c.find(name).(string)
	return text
}

// list returns up to most strings of a claim: a list, or one string with spaces as separators.
// Empty strings, duplicates, strings of more than longest bytes and elements of other types are
// ignored.
func (c claims) list(name string, most, longest int) []string {
	var all []string
	switch v := c.find(name).(type) {
	case string:
		all = strings.Fields(v)
	case []any:
		for _, e := range v {
			if text, ok := e.(string); ok {
				all = append(all, text)
			}
		}
	}
	out := []string{} // not nil, which would permit all models
	for _, text := range all {
		if text != "" && len(text) <= longest && len(out) < most && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// when returns a claim that is a time, in seconds since 1970 (RFC 7519, section 2).
func (c claims) when(name string) (time.Time, bool) {
	number, ok := c[name].(json.Number)
	if !ok {
		return time.Time{}, false
	}
	seconds, err := number.Float64()
	if err != nil || seconds < 0 {
		return time.Time{}, false
	}
	const farthest = 253402300799 // the end of the year 9999
	return time.Unix(int64(math.Min(seconds, farthest)), 0), true
}

// accept returns the identity that claims describe, if a rule accepts them at a given time. The
// token's signature must be verified.
func (c claims) accept(rule *Rule, now time.Time) (*Identity, error) {
	if issuer, _ := c["iss"].(string); issuer == "" || issuer != rule.Source.Issuer {
		return nil, errIssuer
	}
	audience, _ := c["aud"].([]any)
	if one, ok := c["aud"].(string); ok {
		audience = []any{one}
	}
	if !slices.ContainsFunc(audience, func(a any) bool {
		text, ok := a.(string)
		return ok && slices.Contains(rule.Audiences, text)
	}) {
		return nil, errAudience
	}
	expires, ok := c.when("exp")
	if !ok || !now.Before(expires) {
		return nil, ErrExpired
	}
	if _, limited := c["nbf"]; limited {
		if from, ok := c.when("nbf"); !ok || now.Add(skew).Before(from) {
			return nil, errEarly
		}
	}
	id := &Identity{Owner: ownerOf(c.text(rule.Claims.Owner)), Expires: expires}
	if id.Owner == "" {
		return nil, errOwner
	}
	if rule.Claims.Groups != "" {
		id.Groups = c.list(rule.Claims.Groups, maxGroups, maxGroup)
	}
	if rule.Claims.Models != "" {
		id.Models = c.list(rule.Claims.Models, maxModels, maxModel)
	}
	if text := c.text(rule.Claims.Objective); len(text) <= maxObjective && objectiveName.MatchString(text) {
		id.Objective = text
	}
	return id, nil
}

var objectiveName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// ownerOf percent-encodes an owner, so that different owners stay different in headers and logs. It
// returns "" if the result is too long.
func ownerOf(text string) string {
	const plain, digits = "@._:-", "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
		if b.Len() > maxOwner {
			return ""
		}
	}
	return b.String()
}
