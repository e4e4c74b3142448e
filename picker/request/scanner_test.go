package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func scan(body []byte, chunk int) Facts {
	var s Scanner
	for len(body) > chunk {
		s.Write(body[:chunk])
		body = body[chunk:]
	}
	s.Write(body)
	return s.Facts()
}

var bodies = []struct {
	name, body, model string
	stream            bool
}{
	{"plain", `{"model":"llama","stream":true,"messages":[]}`, "llama", true},
	{"model last", `{"messages":[{"role":"user","content":"hi"}], "stream" : false , "model" : "m-1" }`, "m-1", false},
	{"a nested model is ignored", `{"x":{"model":"no","stream":true},"y":[{"model":"no"}]}`, "", false},
	{"a model inside a string is ignored", `{"p":"\"model\":\"no\"","model":"yes"}`, "yes", false},
	{"a string that ends in a backslash", `{"p":"\\","model":"yes"}`, "yes", false},
	{"escaped key and value", `{"mod\u0065l":"a\"b\\c\u00e9\ud83d\ude00"}`, `a"b\cé😀`, false},
	{"the last of two models is used", `{"model":"a","model":"b"}`, "b", false},
	{"a later model that is no string replaces the first", `{"model":"a","model":7}`, "", false},
	{"stream as a string is not true", `{"stream":"true","model":null}`, "", false},
	{"the last of two streams is used", `{"stream":true,"stream":false}`, "", false},
	{"an array has no model", `[{"model":"x"}]`, "", false},
	{"a string has no model", `"model"`, "", false},
	{"empty", ``, "", false},
	{"a long key is skipped", `{"` + strings.Repeat("k", 999) + `":"x","model":"m"}`, "m", false},
	{"braces in a string", `{"p":"}}]]{{[[","model":"m"}`, "m", false},
}

func TestModel_FoundWhereverAChunkEnds(t *testing.T) {
	for _, tt := range bodies {
		t.Run(tt.name, func(t *testing.T) {
			for chunk := 1; chunk <= len(tt.body)+1; chunk++ {
				want := Facts{Model: tt.model, Stream: tt.stream, Size: len(tt.body)}
				if got := scan([]byte(tt.body), chunk); got != want {
					t.Fatalf("chunks of %d bytes: got %+v, want %+v", chunk, got, want)
				}
			}
		})
	}
}

func TestModel_OverlongNameIsIgnored(t *testing.T) {
	body := `{"model":"` + strings.Repeat("m", maxModel+1) + `","stream":true}`
	if got := scan([]byte(body), 100); got.Model != "" || !got.Stream {
		t.Errorf("model of %d bytes, stream %v", len(got.Model), got.Stream)
	}
}

func FuzzScanner_EqualsEncodingJSON(f *testing.F) {
	for _, tt := range bodies {
		f.Add([]byte(tt.body), uint8(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, chunk uint8) {
		got := scan(body, int(chunk)+1)
		if whole := scan(body, len(body)+1); got != whole {
			t.Fatalf("chunks of %d: %+v, whole: %+v", int(chunk)+1, got, whole)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil || object == nil {
			return
		}
		want := Facts{Size: len(body), Stream: string(object["stream"]) == "true"}
		if raw := object["model"]; len(raw) <= maxModel+2 {
			_ = json.Unmarshal(raw, &want.Model)
		}
		if got != want {
			t.Fatalf("body %q: got %+v, encoding/json reads %+v", body, got, want)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 400 << 10} {
		body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat(`lorem ipsum dolor \n sit amet `, size/30) + `"}],"model":"llama"}`)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if scan(body, 16<<10).Model != "llama" {
					b.Fatal("no model")
				}
			}
		})
	}
}
