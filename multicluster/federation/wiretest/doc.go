// Package wiretest converts members' messages from JSON to CBOR with the same field names, the wire
// form of package federation. Tests use it to imitate a hostile member.
//
// Tests: go test ./multicluster/federation
package wiretest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/fxamacker/cbor/v2"
)

// Value returns the wire form of a JSON text. It returns any other text unchanged.
func Value(text string) []byte {
	in := json.NewDecoder(bytes.NewReader([]byte(text)))
	in.UseNumber() // 64-bit numbers stay exact
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

func exact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
		if text, ok := v["blocks"].(string); ok { // a load's blocks are bytes
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
				v["blocks"] = raw
			}
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case json.Number:
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n
		}
		if n, err := v.Int64(); err == nil {
			return n
		}
		n, _ := v.Float64() // a number that is too large becomes infinite
		return n
	}
	return value
}
