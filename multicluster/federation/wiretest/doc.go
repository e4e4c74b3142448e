// Package wiretest writes messages of members as JSON, for tests that play a hostile member. The
// wire form is CBOR with the same names (multicluster/federation).
//
// Tests: go test ./multicluster/federation
package wiretest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/fxamacker/cbor/v2"
)

// Value returns the wire form of a JSON text. Text that is not JSON stays as it is.
func Value(text string) []byte {
	in := json.NewDecoder(bytes.NewReader([]byte(text)))
	in.UseNumber() // numbers of 64 bits are exact
	var value any
	if in.Decode(&value) != nil || in.More() {
		return []byte(text)
	}
	out, err := cbor.Marshal(exact(value))
	if err != nil {
		return []byte(text)
	}
	return out
}

// Text returns the JSON text of a message, and whether it is one.
func Text(value []byte) (text string, ok bool) {
	mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
	if err != nil {
		return "", false
	}
	var message any
	if mode.Unmarshal(value, &message) != nil {
		return "", false
	}
	out, err := json.Marshal(message)
	return string(out), err == nil
}

// exact replaces numbers by those of Go.
func exact(value any) any {
	switch is := value.(type) {
	case map[string]any:
		for key := range is {
			is[key] = exact(is[key])
		}
		if text, ok := is["blocks"].(string); ok { // of a load: bytes
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
				is["blocks"] = raw
			}
		}
	case []any:
		for i := range is {
			is[i] = exact(is[i])
		}
	case json.Number:
		if n, err := strconv.ParseUint(is.String(), 10, 64); err == nil {
			return n
		}
		if n, err := is.Int64(); err == nil {
			return n
		}
		n, _ := is.Float64() // a number too large is an infinity
		return n
	}
	return value
}
