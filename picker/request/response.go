package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
)

// ResponseID is a hash of the ID of a Responses API response. The picker does not store the ID:
// anyone with the ID could continue the client's conversation.
type ResponseID [16]byte

// maxResponseID bounds a response's ID, in bytes. vLLM's IDs have 37 bytes, OpenAI's 55.
const maxResponseID = 256

// ResponseOf returns the ResponseID of an ID; zero if the ID is empty or longer than 256 bytes.
func ResponseOf[T string | []byte](id T) (out ResponseID) {
	if len(id) == 0 || len(id) > maxResponseID {
		return out
	}
	sum := sha256.Sum256([]byte(id))
	copy(out[:], sum[:])
	return out
}

// ResponseInPath returns the response whose ID is in a path such as /v1/responses/ID/cancel, or
// zero.
func ResponseInPath(path []byte) (out ResponseID) {
	_, id, ok := bytes.Cut(path, []byte("/v1/responses/"))
	if !ok {
		return out
	}
	if i := bytes.IndexAny(id, "/?"); i >= 0 {
		id = id[:i]
	}
	if bytes.IndexByte(id, '%') < 0 || len(id) > 3*maxResponseID {
		return ResponseOf(id)
	}
	text, err := url.PathUnescape(string(id))
	if err != nil {
		return out
	}
	return ResponseOf(text)
}

// MarshalText implements encoding.TextMarshaler.
func (r ResponseID) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, r[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *ResponseID) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text[:min(len(text), 2*len(r))])
	if err != nil || len(raw) != len(r) {
		return fmt.Errorf("a ResponseID has %d bytes in base64", len(r))
	}
	copy(r[:], raw)
	return nil
}
