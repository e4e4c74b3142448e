package request

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBody_BrokenDeepOrEmptyIsInvalid(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, ok := range map[string]bool{
		`{"a": [1, {"b": "]]\"[["}]}`: true, ` {} `: true, nested(maxNesting): true, `"[[[[["`: true,
		nested(maxNesting + 1): false, nested(1_000_000): false, ``: false, `{"a": `: false, `{} {}`: false,
		`hello`: false, `{"a": "\`: false, `]`: false,
	} {
		if err := Check([]byte(text)); (err == nil) != ok {
			t.Errorf("%.40q: got %v, want valid: %t", text, err, ok)
		}
	}
}

func FuzzBody_CheckEqualsEncodingJSON(f *testing.F) {
	f.Add([]byte(`{"a": [1, "\u0041"]}`))
	f.Add([]byte(`[[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) < maxNesting && (Check(body) == nil) != json.Valid(body) {
			t.Errorf("%q: got valid %t, want %t as in encoding/json", body, Check(body) == nil, json.Valid(body))
		}
	})
}
