package request

import (
	"encoding/json"
	"testing"

	"google.golang.org/grpc/mem"
)

// Streams of OpenAI's APIs get stream_options.include_usage, whatever other members they have.
// Other bodies stay unchanged.
func TestIncludeUsage_OnlyStreamsOfOpenAI(t *testing.T) {
	for _, tt := range []struct {
		kind       Kind
		body, want string // want is "" if the body stays
	}{
		{ChatCompletions, `{"stream":true,"messages":[]}`,
			`{"stream_options":{"include_usage":true},"stream":true,"messages":[]}`},
		{Completions, "\ufeff \n{ \"prompt\":\"{\", \"stream\" : true }",
			"\ufeff \n{\"stream_options\":{\"include_usage\":true}, \"prompt\":\"{\", \"stream\" : true }"},
		{ChatCompletions, `{"stream":true,"stream_options":null,"n":1}`,
			`{"stream":true,"stream_options":{"include_usage":true},"n":1}`},
		{ChatCompletions, `{"stream_options" : {"a":[1],"include_usage":false} ,"stream":true}`,
			`{"stream_options" :{"a":[1],"include_usage":true} ,"stream":true}`},
		{ChatCompletions, `{"stream_options":{},"stream":true,"stream_options":{"b":2}}`,
			`{"stream_options":{},"stream":true,"stream_options":{"b":2,"include_usage":true}}`},
		{ChatCompletions, `{"stream_options":{"include_usage":true},"stream":true}`, ""},
		{ChatCompletions, `{"stream_options":"x","stream":true}`, ""},
		{ChatCompletions, `{"stream":false,"messages":[]}`, ""},
		{ChatCompletions, `{"messages":[{"stream":true}]}`, ""},
		{ChatCompletions, `[{"stream":true}]`, ""},
		{Messages, `{"stream":true}`, ""},
		{Responses, `{"stream":true}`, ""},
	} {
		for _, chunk := range []int{1, 3, 1000} {
			s := New(tt.kind)
			s.FindStreamOptions()
			var body mem.BufferSlice
			for at := 0; at < len(tt.body); at += chunk {
				part := []byte(tt.body[at:min(at+chunk, len(tt.body))])
				s.Write(part)
				body = append(body, mem.SliceBuffer(part))
			}
			s.Facts()
			s.IncludeUsage(body)
			want := tt.want
			if want == "" {
				want = tt.body
			}
			if got := string(Apply(body, s.Splices()).Materialize()); got != want {
				t.Errorf("%s in chunks of %d: got %s, want %s", tt.body, chunk, got, want)
			}
			s.Release()
		}
	}
}

func FuzzIncludeUsage_ChangedBodyStaysJSON(f *testing.F) {
	f.Add(`{"stream":true,"messages":[]}`)
	f.Add(`{"stream_options" : {"a":[1]} ,"stream":true}`)
	f.Add(`{"stream_options":null,"stream":true,"\u0073tream_options":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := New(ChatCompletions)
		defer s.Release()
		s.FindStreamOptions()
		body := mem.BufferSlice{mem.SliceBuffer([]byte(text))}
		s.Write([]byte(text))
		s.Facts()
		s.IncludeUsage(body)
		got := Apply(body, s.Splices()).Materialize()
		var before, after map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &before) != nil || before == nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q becomes %q, want JSON: %v", text, got, err)
		}
		for name, value := range before {
			if name != "stream_options" && string(after[name]) != string(value) {
				t.Errorf("%q becomes %q, want stream_options changed alone", text, got)
			}
		}
	})
}
