package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
)

// edited returns a body without "route", and with an edit's additions.
func edited(body, cuts []byte, e Edit) (got string, s *Scanner, ok bool) {
	s = New(ChatCompletions)
	s.FindMembers()
	whole := pieces(body, cuts)
	for _, b := range whole {
		s.Write(b.ReadOnlyData())
	}
	ok = s.RemoveRoute()
	return string(Apply(whole, s.Edited(whole, e)).Materialize()), s, ok
}

func TestTokenIDs_RouteIsRemovedAndTokensReplaceTheClients(t *testing.T) {
	const ids = `"token_ids":[1,2]`
	for body, want := range map[string][2]string{ // results without and with token IDs
		`{"model":"m"}`:                               {`{"model":"m"}`, `{` + ids + `,"model":"m"}`},
		`{"route":true,"model":"m"}`:                  {`{"model":"m"}`, `{` + ids + `,"model":"m"}`},
		`{ "route" : true , "model":"m"}`:             {`{  "model":"m"}`, `{` + ids + `,  "model":"m"}`},
		`{"model":"m","route":false}`:                 {`{"model":"m"}`, `{` + ids + `,"model":"m"}`},
		`{"model":"m" , "route":false }`:              {`{"model":"m"  }`, `{` + ids + `,"model":"m"  }`},
		`{"route":true}`:                              {`{}`, `{` + ids + `}`},
		` { } `:                                       {` { } `, ` {` + ids + ` } `},
		`{"route":1,"route":2,"a":3,"route":4,"b":5}`: {`{"a":3,"b":5}`, `{` + ids + `,"a":3,"b":5}`},
		`{"a":3,"route":1,"route":[{"a":1},2],"b":5}`: {`{"a":3,"b":5}`, `{` + ids + `,"a":3,"b":5}`},
		`{"a":3,"route":1,"b":5,"route":{}}`:          {`{"a":3,"b":5}`, `{` + ids + `,"a":3,"b":5}`},
		`{"r\u006fute":null,"x":{"route":1}}`:         {`{"x":{"route":1}}`, `{` + ids + `,"x":{"route":1}}`},
		`{"token_ids":[7,8],"a":1}`:                   {`{"token_ids":[7,8],"a":1}`, `{` + ids + `,"a":1}`},
		`{"a":1,"token_ids":"x","token_ids":[7]}`: {
			`{"a":1,"token_ids":"x","token_ids":[7]}`, `{` + ids + `,"a":1}`,
		},
		`{"route":1,"token_ids":[7],"a":1}`: {`{"token_ids":[7],"a":1}`, `{` + ids + `,"a":1}`},
		`{"token_\u0069ds":[7],"route":1}`:  {`{"token_\u0069ds":[7]}`, `{` + ids + `}`},
		`{"prompt":[[1],[2]],"route":true,"n":1e400}`: {
			`{"prompt":[[1],[2]],"n":1e400}`, `{` + ids + `,"prompt":[[1],[2]],"n":1e400}`,
		},
		`[{"route":true}]`: {`[{"route":true}]`, `[{"route":true}]`},
		`{"messages":[{"content":"route","role":"x"}]}`: {
			`{"messages":[{"content":"route","role":"x"}]}`,
			`{` + ids + `,"messages":[{"content":"route","role":"x"}]}`,
		},
	} {
		for _, cuts := range [][]byte{nil, {1}, {3, 7}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
			for i, e := range []Edit{{}, {TokenIDs: []byte("[1,2]")}} {
				got, s, ok := edited([]byte(body), cuts, e)
				if s.Release(); got != want[i] || !ok {
					t.Errorf("%s\nbecame %s\nwant   %s", body, got, want[i])
				}
			}
		}
	}
	if got, _, _ := edited([]byte(`{"nvext":{"dp_rank":1},"route":true}`), nil,
		Edit{TokenIDs: []byte("[1]"), TokenData: []byte("[2]")}); got !=
		`{"token_ids":[1],"nvext":{"token_data":[2],"dp_rank":1}}` {
		t.Errorf("with token_data: %s, want %q", got, `{"token_ids":[1],"nvext":{"token_data":[2],"dp_rank":1}}`)
	}
	if got, _, _ := edited([]byte(`{"route":true}`), nil,
		Edit{TokenIDs: []byte("[1]"), TokenData: []byte("[2]")}); got !=
		`{"token_ids":[1],"nvext":{"token_data":[2]}}` {
		t.Errorf("with token_data alone: %s, want %q", got, `{"token_ids":[1],"nvext":{"token_data":[2]}}`)
	}
}

func TestTokenIDs_RouteIsReadAndBounded(t *testing.T) {
	for body, want := range map[string]string{
		`{"route":true}`: "true true", `{"route":false}`: "false true", `{"a":1}`: "false false",
		`{"route":null}`: "false false", `{"route":"true"}`: "false false",
		`{"route":true,"route":false}`: "false true", `{"route":false,"route":true,"a":{"route":false}}`: "true true",
		`{"route":true,"route":1}`:          "false false",
		`{"route":true,"route":"fallback"}`: "false false", `{"route":true,"route":[false]}`: "false false",
		`{"route":true,"route":{"route":true}}`: "false false",
	} {
		_, s, _ := edited([]byte(body), []byte{1, 3}, Edit{})
		route, given := s.Route()
		if got := fmt.Sprint(route, given); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		s.Release()
	}
	if _, _, ok := edited([]byte(`{`+string(bytes.Repeat([]byte(`"route":1,`), maxSpans+1))+`"a":1}`), nil,
		Edit{}); ok {
		t.Errorf("%d members are removed, want that they are too many", maxSpans+1)
	}
}

// However a body is cut, it stays the same JSON except for the two members.
func FuzzTokenIDs_OtherMembersSurvive(f *testing.F) {
	for _, s := range []string{`{"route":true,"token_ids":[1],"b":2}`, `{"a":1,"route":1,"r\u006fute":[{}]}`,
		`{"route"}`, `{"route":,"a":1}`, `{"a":1]`, `{"a":1,,"route":2}`} {
		f.Add([]byte(s), []byte{1, 3})
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		for _, e := range []Edit{{}, {TokenIDs: []byte("[1,2]")},
			{TokenIDs: []byte("[1,2]"), TokenData: []byte("[3]")}} {
			whole, s, ok := edited(body, nil, e)
			s.Release()
			got, s, alsoOK := edited(body, cuts, e)
			s.Release()
			if got != whole || ok != alsoOK {
				t.Fatalf("%q cut by %v is %q, want %q as of the whole", body, cuts, got, whole)
			}
			var original, changed map[string]any
			if !ok || !json.Valid(body) || json.Unmarshal(body, &original) != nil || original == nil {
				continue
			}
			if err := json.Unmarshal([]byte(got), &changed); err != nil {
				t.Fatalf("%q became %q, want JSON: %v", body, got, err)
			}
			if _, has := changed["route"]; has || e.TokenIDs != nil &&
				(fmt.Sprint(changed["token_ids"]) != "[1 2]" ||
					bytes.Count([]byte(got), []byte(`"token_ids":[1,2]`)) < 1) {
				t.Fatalf("%q became %q, want no route, and token_ids [1,2] if given", body, got)
			}
			names := []string{"route", "nvext"}
			if e.TokenIDs != nil {
				names = append(names, "token_ids")
			}
			for _, name := range names {
				delete(original, name)
				delete(changed, name)
			}
			before, _ := json.Marshal(original)
			after, _ := json.Marshal(changed)
			if !bytes.Equal(before, after) {
				t.Fatalf("%q became %q, want the other members unchanged", body, got)
			}
		}
	})
}

// inChunks returns a body without "route", written chunk by chunk.
func inChunks(body, cuts []byte, target func(string) *Target) (out string, ok bool) {
	w := NewRewriter(target, true)
	defer w.Release()
	chunks := pieces(body, cuts)
	for i, b := range chunks {
		part, fine := w.Write(mem.BufferSlice{b}, i == len(chunks)-1)
		out += string(part.Materialize())
		if !fine {
			return out, false
		}
	}
	return out, true
}

func TestRoute_ChunkByChunkItIsRemovedToo(t *testing.T) {
	long := strings.Repeat(" ", maxValue+1)
	for body, want := range map[string]string{
		`{"route":true,"model":"m"}`:                  `{"model":"m"}`,
		`{"a":1 , "route" : {"x":[1,2]} , "b":2}`:     `{"a":1  , "b":2}`,
		`{"route":1,"route":2,"a":3,"route":4}`:       `{"a":3}`,
		`{"route":1 , "route":2}`:                     `{ }`,
		`{"a":1,` + long + `"route":2,"b":3}`:         `{"a":1,` + long + `"route":2,"b":3}`,
		`{"route":"` + long + `","route":1,"b":3}`:    `{"route":"` + long + `","b":3}`,
		`{"route":1` + long + `,"route":1,"b":3}`:     `{"route":1` + long + `,"b":3}`,
		`{"x` + long + `":1,"route":1,"token_ids":3}`: `{"x` + long + `":1,"token_ids":3}`,
	} {
		sizes := []int{1, 2, 3, 5}
		if len(body) > maxValue {
			sizes = []int{17, 200}
		}
		for _, n := range sizes {
			cuts := bytes.Repeat([]byte{byte(n)}, len(body))
			if got, ok := inChunks([]byte(body), cuts, nil); got != want || !ok {
				t.Errorf("%.80s in chunks of %d\nbecame %.80s\nwant   %.80s", body, n, got, want)
			}
		}
	}
}

func FuzzRoute_ChunksEqualTheWhole(f *testing.F) {
	for _, s := range []string{`{"route":true,"model":"a","b":2}`, `{"model":"a","route":1,"r\u006fute":[{}]}`,
		`{"route":1,"route":2}`, `{"route"}`, `{"route":,"a":1}`, `{"a":1]`, `{"a":1,,"route":2,"token_ids":[]}`} {
		f.Add([]byte(s), []byte{1, 3})
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		if len(body) == 0 || len(body) > maxValue/2 {
			return
		}
		if !json.Valid(body) {
			// must not panic
			inChunks(body, cuts, func(string) *Target { return NewTarget("other") })
			return
		}
		s := New(OtherKind)
		s.FindMembers()
		whole := pieces(body, nil)
		for _, b := range whole {
			s.Write(b.ReadOnlyData())
		}
		if ok := s.RemoveRoute(); !ok {
			return
		}
		want := string(Apply(whole, s.Splices()).Materialize())
		s.Release()
		if got, ok := inChunks(body, cuts, nil); got != want || !ok {
			t.Fatalf("%q cut by %v is %q, want %q", body, cuts, got, want)
		}
		if got, ok := inChunks(body, cuts, func(string) *Target { return NewTarget("other") }); ok &&
			!json.Valid([]byte(got)) {
			t.Fatalf("%q cut by %v is %q, want JSON", body, cuts, got)
		}
	})
}
