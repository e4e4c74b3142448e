package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-project/penstock/picker/prefix"
)

func scan(k Kind, body []byte, chunk int) Facts {
	s := New(k)
	defer s.Release()
	for len(body) > chunk {
		s.Write(body[:chunk])
		body = body[chunk:]
	}
	s.Write(body)
	f := s.Facts()
	f.Chain, f.Exact = slices.Clone(f.Chain), f.Exact.Clone()
	return f
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
				if got := scan(OtherKind, []byte(tt.body), chunk); !cmp.Equal(got, want) {
					t.Fatalf("chunks of %d bytes: got %+v, want %+v", chunk, got, want)
				}
			}
		})
	}
}

func TestModel_OverlongNameIsIgnored(t *testing.T) {
	body := `{"model":"` + strings.Repeat("m", maxModel+1) + `","stream":true}`
	if got := scan(ChatCompletions, []byte(body), 100); got.Model != "" || !got.Stream {
		t.Errorf("model of %d bytes, stream %v; want none, and true", len(got.Model), got.Stream)
	}
}

// prompts are bodies of every API, as clients write them.
var prompts = []struct{ path, body string }{
	{
		"/v1/chat/completions",
		`{"messages":[{"role":"system","content":"You are \"it\"."},{"role":"user","content":[{"type":"text",` +
			`"text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]}],` +
			`"model":"m","stream":true,"max_completion_tokens":17,"tools":[{"type":"function",` +
			`"function":{"name":"f","parameters":{"type":"object"}}}]}`,
	},
	{
		"/v1/chat/completions",
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f",` +
			`"arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}],"cache_salt":"tenant",` +
			`"chat_template_kwargs":{"thinking":false},"documents":[{"text":"d"}]}`,
	},
	{"/v1/completions?x=y", `{"model": "m", "prompt": ["one", "two"], "max_tokens": 5}`},
	{"/v1/completions", `{"prompt":[[1, 2,3],[ 128255 ,4]],"max_tokens":99999999999999999999}`},
	{
		"/v1/responses",
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image",` +
			`"image_url":"https://x/y.png"}]},{"type":"function_call_output","call_id":"c","output":"42"}],` +
			`"instructions":"Be brief.","max_output_tokens":100}`,
	},
	{"/v1/responses", `{"input":"hi","previous_response_id":"resp_1","reasoning":{"effort":"low"}}`},
	{"/v1/responses", `{"input":"hi","previous_response_id":"a","previous_response_id":"r\u0065\"sp_1","store":false}`},
	{"/v1/responses", `{"previous_response_id":"a","store":true,"previous_response_id":null,"input":"hi"}`},
	{"/v1/embeddings", `{"input":["a","b"],"model":"e"}`},
	{"/v1/embeddings", `{"input":[1,2,3,4294967295,4294967296,1.5,-1,1e3,null],"model":"e"}`},
	{"/v2/rerank", `{"query":"q","documents":["a",{"text":"b"}],"top_n":2,"model":"r"}`},
	{
		"/v1/messages",
		`{"max_tokens":64,"messages":[{"role":"user","content":[{"type":"text","text":"a",` +
			`"cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"t",` +
			`"content":[{"type":"text","text":"r"}]},{"type":"image","source":{"type":"base64",` +
			`"media_type":"image/png","data":"AA=="}}]}],"model":"c","system":[{"type":"text","text":"s"}]}`,
	},
	{
		"/inference/v1/generate",
		`{"request_id":"r","token_ids":[1,2,3],"features":{"mm_hashes":{"image":["h"]}},` +
			`"sampling_params":{"temperature":0,"max_tokens":3},"model":"m","stream":false}`,
	},
	{"/v1/completions", `{"prompt":[[[[[[[[[[[["deep",{"a":[1]}]]]]]]]]]]]],"model":"m"}`},
	{"/pooling", `{"messages":[{"role":"user","content":"a"}],"model":"m","max_tokens":2}`},
	{
		"/v1/chat/completions", `{"messages":[{"role":"user","content":"a","` + strings.Repeat("k", 999) +
			`":"an unknown member"}],"model":"m"}`,
	},
}

func TestPrompt_EqualsEncodingJSONWhereverAChunkEnds(t *testing.T) {
	for _, tt := range prompts {
		// Long texts between the parts make every part reach the chain.
		for _, body := range []string{
			tt.body,
			strings.NewReplacer(`"a"`, `"`+strings.Repeat(`a\n`, 600)+`"`, `"role"`,
				`"name":"`+strings.Repeat("n", 300)+`","role"`).Replace(tt.body),
		} {
			var r reference
			want := r.read(KindOf([]byte(tt.path)), []byte(body))
			whole := scan(KindOf([]byte(tt.path)), []byte(body), len(body))
			// The reference does not compute token IDs.
			want.Exact, want.Prompt = whole.Exact, whole.Prompt
			for chunk := 1; chunk <= len(body)+1; chunk += 1 + len(body)/300 {
				if got := scan(KindOf([]byte(tt.path)), []byte(body), chunk); !cmp.Equal(got, want,
					cmpopts.EquateEmpty()) {
					t.Fatalf("%s, chunks of %d bytes of %s: %s", tt.path, chunk, body, cmp.Diff(want, got))
				}
			}
		}
	}
}

func chat(before string, turns ...string) []byte {
	var messages []string
	for i, text := range turns {
		messages = append(messages,
			fmt.Sprintf(`{"role":"%s","content":%q}`, [2]string{"user", "assistant"}[i%2], text))
	}
	return []byte(`{` + before + `"messages":[` + strings.Join(messages, ",") + `]}`)
}

func shared(a, b []byte) (n int) {
	x, y := scan(ChatCompletions, a, 1<<20).Chain, scan(ChatCompletions, b, 1<<20).Chain
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func TestPrompt_SharesWhatItsServerCanReuse(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 300) // 3,600 bytes
	first, second := chat(`"model":"m",`, long), chat(`"model":"m",`, long, "answer", long)
	if n := shared(first, second); n != 14 {
		t.Errorf("the next turn of a chat shares %d blocks with the first one, of 14, want 14", n)
	}
	if n := shared(second, chat(`"model":"m",`, long, "answer", long+"x")); n < 27 {
		t.Errorf("a last message with another end shares %d blocks, want at least 27", n)
	}
	late := bytes.Replace(second, []byte(`"model":"m",`), nil, 1)
	late = append(late[:len(late)-1], `,"model":"m"}`...)
	if n := shared(second, late); n < 28 {
		t.Errorf("a body with its model at the end shares %d blocks with one that has it first, want at least 28", n)
	}
	parts := bytes.Replace(first, []byte(fmt.Sprintf("%q", long)),
		[]byte(fmt.Sprintf(`[{"type":"text","text":%q},{"text":%q,"type":"text"}]`, long[:70], long[70:])), 1)
	if n := shared(first, parts); n != 14 {
		t.Errorf("a text in parts shares %d blocks with the same text in one, want 14", n)
	}
	for name, before := range map[string]string{
		"another model": `"model":"n",`, "a salt": `"model":"m","cache_salt":"s",`,
		"tools": `"model":"m","tools":[{}],`, "another system prompt": `"model":"m","system":"s",`,
	} {
		if n := shared(first, chat(before, long)); n != 0 {
			t.Errorf("a body with %s shares %d blocks, want 0", name, n)
		}
	}
}

func TestRequest_KindIsFoundByPath(t *testing.T) {
	for path, want := range map[string]Kind{
		"/v1/chat/completions": ChatCompletions, "/openai/v1/chat/completions?api-version=1": ChatCompletions,
		"/v1/completions": Completions, "/v1/rerank": Rerank,
		"/v1/models": OtherKind, "": OtherKind, "/v1/chat/completions/render": OtherKind,
		GRPCGeneratePath: GRPCGenerate, "/vllm.grpc.engine.VllmEngine/Abort": OtherKind,
	} {
		if got := KindOf([]byte(path)); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func TestRequest_TokenIDsAreExactOnlyAlone(t *testing.T) {
	var ids []string
	var want prefix.Tokens
	for i := range 200 {
		ids = append(ids, strconv.Itoa(i*1000))
		want.Add(uint32(i * 1000))
	}
	list := "[" + strings.Join(ids, ", ") + "]"
	for body, kind := range map[string]Kind{
		`{"prompt": ` + list + `, "model": "m", "max_tokens": 5}`:                     Completions,
		`{"prompt": [` + list + `]}`:                                                  Completions,
		`{"input": ` + list + `}`:                                                     Embeddings,
		`{"token_ids":` + list + `,"features":null,"sampling_params":{}}`:             Generate,
		`{"token_ids":` + list + `,"prompt":"text","messages":[{"content":"hello"}]}`: Rendered,
	} {
		for _, chunk := range []int{1, 7, 1000} {
			got := scan(kind, []byte(body), chunk).Exact
			if got.Tokens != 200 || !slices.Equal(got.Ends, want.Exact().Ends) {
				t.Errorf("%.60s: got %d tokens, %x; want 200, %x", body, got.Tokens, got.Ends, want.Exact().Ends)
			}
		}
	}
	for body, kind := range map[string]Kind{
		`{"prompt": [` + list + `, ` + list + `]}`:                            Completions,
		`{"prompt": "text"}`:                                                  Completions,
		`{"prompt": ["text", ` + list[1:] + `}`:                               Completions,
		`{"messages": [{"role": "user", "content": "text"}], "n": 1}`:         ChatCompletions,
		`{"token_ids":` + list + `,"features":{"mm_hashes":{"image":["x"]}}}`: Generate,
		`{"model": "m"}`: Completions,
	} {
		if got := scan(kind, []byte(body), 1000).Exact; got.Tokens != 0 || len(got.Ends) != 0 {
			t.Errorf("%.60s: got %d tokens, want none", body, got.Tokens)
		}
	}
}

func FuzzScanner_EqualsEncodingJSON(f *testing.F) {
	for _, tt := range bodies {
		f.Add([]byte(tt.body), uint8(3), uint8(OtherKind))
	}
	for _, tt := range prompts {
		f.Add([]byte(tt.body), uint8(30), uint8(KindOf([]byte(tt.path))))
	}
	f.Fuzz(func(t *testing.T, body []byte, chunk, kind uint8) {
		k := Kind(kind) % GRPCGenerate
		got := scan(k, body, int(chunk)+1)
		// A pooled scanner may have an empty list of items instead of nil.
		if whole := scan(k, body, len(body)+1); !cmp.Equal(got, whole, cmpopts.EquateEmpty()) {
			t.Fatalf("chunks of %d: got %+v, want %+v as of the whole", int(chunk)+1, got, whole)
		}
		if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
			return
		}
		var r reference
		want := r.read(k, body)
		want.Exact, want.Prompt = got.Exact, got.Prompt // the reference does not compute token IDs
		if !cmp.Equal(got, want, cmpopts.EquateEmpty()) {
			t.Fatalf("body %q: %s", body, cmp.Diff(want, got))
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10, 400 << 10} {
		text := strings.Repeat(`lorem ipsum dolor \n sit amet `, size/30)
		quotes := strings.Repeat(`The quick brown fox jumps over the lazy dog, and \"quotes\" it.\n`, size/64)
		var ids strings.Builder
		for i := range size / 6 {
			fmt.Fprintf(&ids, ",%5d", 10000+i%80000)
		}
		for _, tt := range []struct {
			name, body string
			kind       Kind
		}{
			{"chat", `{"messages":[{"role":"user","content":"` + text + `"}],"model":"llama"}`, ChatCompletions},
			{"quotes", `{"messages":[{"role":"user","content":"` + quotes + `"}],"model":"llama"}`, ChatCompletions},
			{"model", `{"messages":[{"role":"user","content":"` + text + `"}],"model":"llama"}`, OtherKind},
			{"tokens", `{"prompt":[1` + ids.String() + `],"model":"llama"}`, Completions},
		} {
			body := []byte(tt.body)
			b.Run(fmt.Sprintf("%s/%dKB", tt.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					s := New(tt.kind)
					for rest := body; len(rest) > 0; rest = rest[min(16<<10, len(rest)):] {
						s.Write(rest[:min(16<<10, len(rest))])
					}
					if s.Facts().Model != "llama" {
						b.Fatal("no model")
					}
					s.Release()
				}
			})
		}
	}
}
