package tokenize

import (
	"bytes"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/penstock-project/penstock/picker/prefix"
)

// FuzzRender_ChunksOfAnAnswerMakeNoDifference: a response yields the same tokens however it is cut,
// and at most a prompt's maximum.
func FuzzRender_ChunksOfAnAnswerMakeNoDifference(f *testing.F) {
	for _, s := range []string{`{"token_ids":[1,2,3]}`, ` [{"token_ids":[1],"features":null}]`,
		`{"token_ids":[4294967296,-1,1.5]}`, `[[[{"token_ids":[1]}`, `{"token_ids":"x"}`,
		`{"features":{"a":1},"token_ids":[1]}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		whole, err := read(bytes.NewReader(body), 1)
		pieces, pieceErr := read(iotest.OneByteReader(bytes.NewReader(body)), 1)
		if (err == nil) != (pieceErr == nil) || !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("whole: %+v, %v; byte by byte: %+v, %v; want the same", whole, err, pieces, pieceErr)
		}
		if err == nil && (whole.tokens < 1 || whole.tokens > len(body) || whole.tokens > prefix.MaxTokens) {
			t.Errorf("%d tokens from %d bytes, want 1 to as many, and at most %d",
				whole.tokens, len(body), prefix.MaxTokens)
		}
	})
}
