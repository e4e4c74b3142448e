package request

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"unicode/utf16"
)

// wide encodes a text in UTF-16, or with four bytes a character.
func wide(text string, order binary.AppendByteOrder, four bool) (out []byte) {
	for _, u := range utf16.Encode([]rune(text)) {
		if four {
			out = order.AppendUint32(out, uint32(u))
		} else {
			out = order.AppendUint16(out, u)
		}
	}
	return out
}

func TestScanner_BodiesInOtherEncodingsAreFound(t *testing.T) {
	wides := map[string][]byte{}
	for order, name := range map[binary.AppendByteOrder]string{binary.LittleEndian: "little", binary.BigEndian: "big"} {
		for _, four := range []bool{false, true} {
			for _, body := range []string{`{"model":"a"}`, "\n {}", "\ufeff{}", "\ufeff\t{}"} {
				wides[name+" "+body+map[bool]string{true: " in four"}[four]] = wide(body, order, four)
			}
		}
	}
	for name, body := range wides {
		for _, size := range []int{1, 2, 3, len(body)} {
			s := New(OtherKind)
			for chunk := range slices.Chunk(body, size) {
				s.Write(chunk)
			}
			if !s.NotUTF8() {
				t.Errorf("%q in chunks of %d passes for UTF-8, want it found", name, size)
			}
			s.Release()
		}
	}
	// These bodies include a video, a gzipped body, a multipart body and JSON.
	for _, body := range []string{"", "{", "{}", " {}", `["a"]`, "\x00\x00\x00 ftypisom", "\x00\x00\x00\x18ftyp",
		"\x1f\x8b\x08\x00", "--x\r\n", "\xff\xd8\xff\xe0", mark + "{}", "\x00", "\x00\x01"} {
		s := New(OtherKind)
		if s.Write([]byte(body)); s.NotUTF8() {
			t.Errorf("%q is not UTF-8, want it to pass", body)
		}
		s.Release()
	}
}

func TestRewrite_ByteOrderMarkHidesNoMember(t *testing.T) {
	to := NewTarget("b")
	for _, cuts := range [][]byte{nil, {1}, {2}} {
		if got, ok := replaced(ChatCompletions, []byte(mark+`{"model":"a"}`), cuts, to); got != mark+`{"model":"b"}` ||
			!ok {
			t.Errorf("got %q %t, want the model b behind the mark", got, ok)
		}
	}
	if got, _ := replaced(ChatCompletions, []byte("\xef\xbb{}"+`{"model":"a"}`), nil, to); bytes.Contains([]byte(got),
		[]byte(`"b"`)) {
		t.Errorf("got %q, want no model b: the body is no JSON", got)
	}
}
