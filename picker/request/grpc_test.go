package request

import (
	"encoding/binary"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/prefix"
)

func generate(ids []uint32, text string, limit uint64) []byte {
	p := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "request-1")
	if ids != nil {
		var packed []byte
		for _, id := range ids {
			packed = protowire.AppendVarint(packed, uint64(id))
		}
		input := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "the text")
		input = protowire.AppendBytes(protowire.AppendTag(input, fieldIDs, protowire.BytesType), packed)
		p = protowire.AppendBytes(protowire.AppendTag(p, fieldTokenized, protowire.BytesType), input)
	} else {
		p = protowire.AppendString(protowire.AppendTag(p, fieldText, protowire.BytesType), text)
	}
	sampling := protowire.AppendFixed32(protowire.AppendTag(nil, 1, protowire.Fixed32Type), 7)
	sampling = protowire.AppendVarint(protowire.AppendTag(sampling, fieldMaxTokens, protowire.VarintType), limit)
	p = protowire.AppendBytes(protowire.AppendTag(p, fieldSampling, protowire.BytesType), sampling)
	p = protowire.AppendVarint(protowire.AppendTag(p, fieldStream, protowire.VarintType), 1)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(p))), p...)
}

func TestGRPC_PromptEqualsThatOfHTTP(t *testing.T) {
	ids := make([]uint32, 1000)
	body := []byte(`{"token_ids":[`)
	for i := range ids {
		ids[i] = uint32(i * i)
		body = append(body, element(i, ids[i])...)
	}
	body = append(body, `]}`...)
	over, http := scan(GRPCGenerate, generate(ids, "", 12), 100), scan(Generate, body, 100)
	if len(http.Chain) != 15 || !slices.Equal(over.Chain, http.Chain) {
		t.Errorf("%d blocks by gRPC, %d by HTTP; want the same 15", len(over.Chain), len(http.Chain))
	}
	if over.Tokens != 1000 || over.MaxTokens != 12 || !over.Stream {
		t.Errorf("facts %+v, want 1000 tokens, 12 at most, streamed", over)
	}
	if text := scan(GRPCGenerate, generate(nil, string(body), 0), 7); len(text.Chain) == 0 ||
		text.Tokens != len(body)/prefix.BytesPerToken {
		t.Errorf("a prompt of %d bytes has %d tokens, %d blocks; want %d tokens, and blocks",
			len(body), text.Tokens, len(text.Chain), len(body)/prefix.BytesPerToken)
	}
	if embed := scan(GRPCEmbed, generate(ids, "", 12), 7); !slices.Equal(embed.Chain, http.Chain) ||
		embed.MaxTokens != 0 {
		t.Errorf("EmbedRequest: got %+v, want the chain of the tokens, and no maximum", embed)
	}
}

func element(i int, id uint32) string {
	text := []byte{','}
	if i == 0 {
		text = nil
	}
	var digits []byte
	for ; id > 9; id /= 10 {
		digits = append(digits, byte('0'+id%10))
	}
	digits = append(digits, byte('0'+id))
	slices.Reverse(digits)
	return string(append(text, digits...))
}

func FuzzGRPC_FactsDoNotDependOnChunks(f *testing.F) {
	f.Add(generate([]uint32{1, 2, 3}, "", 1), uint8(0))
	f.Add(generate(nil, "hello", 1), uint8(2))
	f.Add([]byte{1, 0, 0, 0, 1, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, chunk uint8) {
		for _, k := range []Kind{GRPCGenerate, GRPCEmbed} {
			a, b := scan(k, body, int(chunk)+1), scan(k, body, len(body)+1)
			if a.Tokens != b.Tokens || a.MaxTokens != b.MaxTokens || !slices.Equal(a.Chain, b.Chain) ||
				a.Tokens > len(body) {
				t.Fatalf("%+v in chunks, %+v whole; want equal facts of at most a token a byte", a, b)
			}
		}
	})
}
