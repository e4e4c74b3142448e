package request

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The hashes are from Python's hashlib.
func TestCHWBL_GoldenKeys(t *testing.T) {
	for _, tt := range []struct{ body, key, hash string }{
		{
			`{"model":"m","messages":[{"role":"system","content":"You are helpful."},{"role":"user",` +
				`"content":"Hello"},{"role":"assistant","content":"Hi"},{"role":"user","content":"Bye"},` +
				`{"role":"user",` +
				`"content":"third"}]}`, "system:You are helpful.|user_0:Hello|user_1:Bye", "f344f685f8e11ac2",
		},
		{
			`{"messages":[{"role":"system","content":"a"},{"role":"user","content":"u"},{"content":"b",` +
				`"role":"system"},{"role":"user","content":"v"},{"role":"system",` +
				`"content":"late"}]}`, "system:b|user_0:u|user_1:v", "4ad0797b446349ab",
		},
		{
			`{"messages":[{"role":"user","content":[{"type":"text","text":"one "},{"type":"image_url",` +
				`"image_url":{"url":"x"}},{"type":"text","text":"two"}]}]}`, "user_0:one two", "2d4ae54e7cc6fe9c",
		},
		{`{"messages":[{"role":"user","content":"\u00e9 \ud83d\ude00 \"q\" \\ \n"}]}`, "user_0:é 😀 \"q\" \\ \n",
			"2895dae95eabbbf0"},
		{`{"messages":[{"role":"system","content":""},{"role":"user","content":""}]}`, "user_0:", "9a21f78bfabd5d04"},
		{`{"messages":[]}`, "{\"messages\":[]}", "394daf1a187e2f2a"},
		{`{"prompt":"x"}`, "{\"prompt\":\"x\"}", "7712ee49e49a88b4"},
	} {
		key, err := SpreadKey(ChatCompletions, 2, []byte(tt.body), nil)
		sum := md5.Sum(key)
		if err != nil || string(key) != tt.key || hex.EncodeToString(sum[:8]) != tt.hash {
			t.Errorf("%s: %q %x %v, want %q", tt.body, key, sum[:8], err, tt.key)
		}
	}
	for _, kind := range []Kind{OtherKind, Completions, Messages} {
		if key, err := SpreadKey(kind, 2, []byte("{"), nil); err != nil || string(key) != "{" {
			t.Errorf(`kind %d: got %q %v, want the body "{"`, kind, key, err)
		}
	}
	for _, body := range []string{"", "{", `{"messages":[}`, `{"a":1}x`, `{"a" 1}`, `{"messages":"`,
		strings.Repeat("[", 600) + strings.Repeat("]", 600), "nul"} {
		if key, err := SpreadKey(ChatCompletions, 2, []byte(body), nil); err == nil {
			t.Errorf("%q has the key %q, want an error", body, key)
		}
	}
}

func spreadText(content any) (text string) {
	switch c := content.(type) {
	case string:
		return c
	case []any:
		for _, part := range c {
			if p, ok := part.(map[string]any); ok {
				kind, has := p["type"]
				if t, ok := p["text"].(string); ok && (!has || kind == "text") {
					text += t
				}
			}
		}
	}
	return text
}

func spreadReference(users int, body []byte) string {
	var whole any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // JSON allows numbers beyond a float64
	if d.Decode(&whole) != nil {
		panic("not JSON")
	}
	object, _ := whole.(map[string]any)
	messages, _ := object["messages"].([]any)
	var system string
	var found []string
	for _, message := range messages {
		m, _ := message.(map[string]any)
		if len(found) == users {
			break
		}
		switch m["role"] {
		case "system":
			system = spreadText(m["content"])
		case "user":
			found = append(found, fmt.Sprintf("user_%d:%s", len(found), spreadText(m["content"])))
		}
	}
	if system != "" {
		found = append([]string{"system:" + system}, found...)
	}
	if len(found) == 0 {
		return string(body)
	}
	return strings.Join(found, "|")
}

func depth(body []byte) (deepest int) {
	d, level := json.NewDecoder(bytes.NewReader(body)), 0
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			level++
			deepest = max(deepest, level)
		} else if token == json.Delim('}') || token == json.Delim(']') {
			level--
		}
	}
}

func FuzzSpreadKey_EqualsEncodingJSON(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"u"},` +
			`{"text":1},{"type":"image"},"x"]},{"content":"b","role":"system"}]}`,
		`{"messages":[{"role":"us\u0065r","content":null},{"role":"user","content":"\ud83d\ude00\ud83d\n"}],` +
			`"x":[-1.5e+3,true,null,{}]}`,
		`{"messages":1,"messages":[{"role":1,"role":"user","content":"a","content":"b"}]}`, `[1]`, `"x"`, `{"a":01}`,
		`2222e2222`,
	} {
		f.Add([]byte(body), uint8(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, n uint8) {
		users := 1 + int(n)%4
		s := NewSpread(ChatCompletions, users)
		for chunk := range slices.Chunk(body, 1+int(n)) {
			s.Write(chunk)
		}
		hash, err := s.Sum()
		s.Release()
		if !json.Valid(body) || !utf8.Valid(body) || depth(body) > maxNesting {
			return
		}
		want := spreadReference(users, body)
		sum := md5.Sum([]byte(want))
		if key, err := SpreadKey(ChatCompletions, users, body, nil); err != nil || string(key) != want {
			t.Fatalf("%q: key %q %v, want %q", body, key, err, want)
		}
		if err != nil || hash != max(1, binary.BigEndian.Uint64(sum[:8])) {
			t.Fatalf("%q: hash %x %v, want that of %q", body, hash, err, want)
		}
	})
}

func TestCHWBL_WholeBodyOfOtherRequests(t *testing.T) {
	s := NewSpread(OtherKind, 2)
	defer s.Release()
	for _, chunk := range []string{`{"prompt`, `":"x"}`} {
		s.Write([]byte(chunk))
	}
	if hash, err := s.Sum(); err != nil || hash != 0x7712ee49e49a88b4 || s.Holds(10) != 0 {
		t.Errorf("%x %v, and it holds %d of 10 bytes, want 0x7712ee49e49a88b4 and 0", hash, err, s.Holds(10))
	}
}
