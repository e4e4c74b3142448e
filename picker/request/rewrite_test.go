package request

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
)

// pieces cuts a body into buffers, whose lengths are the bytes of cuts, in turn.
func pieces(body []byte, cuts []byte) (out mem.BufferSlice) {
	for i := 0; len(body) > 0; i++ {
		n := len(body)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])%32)
			if n == 0 && i%2 == 0 {
				n = 1
			}
		}
		out = append(out, mem.SliceBuffer(bytes.Clone(body[:n])))
		body = body[n:]
	}
	return out
}

func replaced(kind Kind, body []byte, cuts []byte, by *Target) (string, bool) {
	s := New(kind)
	defer s.Release()
	whole := pieces(body, cuts)
	for _, b := range whole {
		s.Write(b.ReadOnlyData())
	}
	if s.Model() == "" {
		return string(body), true
	}
	ok := s.Replace(by)
	return string(Apply(whole, s.Splices()).Materialize()), ok
}

func TestRewrite_AllOtherBytesSurvive(t *testing.T) {
	to := NewTarget(`v<1>"`)
	for body, want := range map[string]string{
		`{"model":"a","seed":9007199254740993}`: `{"model":"v<1>\"","seed":9007199254740993}`,
		"{\r\n \"z\" : \"<b>\\u00e9\", \"model\" : \"a\" , " +
			"\"a\":1e5}": "{\r\n \"z\" : \"<b>\\u00e9\", \"model\" : \"v<1>\\\"\" , \"a\":1e5}",
		`{"model":"a","messages":[{"model":"a"}],"model":"b"}`: `{"model":"v<1>\"","messages":[{"model":"a"}],` +
			`"model":"v<1>\""}`,
		`{"mod\u0065l":"a"}`:                     `{"mod\u0065l":"v<1>\""}`,
		`{"model":{"x":["]"]},"model":"a"}`:      `{"model":"v<1>\"","model":"v<1>\""}`,
		`{"model":12 ,"model":null,"model":"a"}`: `{"model":"v<1>\"" ,"model":"v<1>\"","model":"v<1>\""}`,
		// The last "model" counts, and the server rejects it.
		`{"model":"a","model":5}`: `{"model":"a","model":5}`,
		`{"model":""}`:            `{"model":""}`,
		`["model","a"]`:           `["model","a"]`,
		`{"x":{"model":"a"}}`:     `{"x":{"model":"a"}}`,
	} {
		for _, cuts := range [][]byte{nil, {1}, {3}, {7, 2}} {
			if got, ok := replaced(ChatCompletions, []byte(body), cuts, to); got != want || !ok {
				t.Errorf("%s\nbecame %s\nwant   %s", body, got, want)
			}
		}
	}
}

func TestRewrite_BodyWithTooManyModelsIsInvalid(t *testing.T) {
	body := "{" + strings.Repeat(`"model":"a",`, maxSpans+1) + `"x":1}`
	if _, ok := replaced(OtherKind, []byte(body), nil, NewTarget("b")); ok {
		t.Error("it was taken")
	}
	w := NewRewriter(func(string) *Target { return NewTarget("b") }, false)
	defer w.Release()
	if _, ok := w.Write(pieces([]byte(body), nil), true); ok {
		t.Error("it was passed on")
	}
}

// Requests that name the target, and requests whose model the target replaces, have equal chains.
func TestRewrite_PrefixChainIsOfTheTarget(t *testing.T) {
	prompt := `,"prompt":"` + strings.Repeat("word ", 2000) + `"}`
	chain := func(model string, to *Target) []uint64 {
		s := New(Completions)
		defer s.Release()
		s.Write([]byte(`{"model":"` + model + `"` + prompt))
		s.Replace(to)
		return slices.Clone(s.Facts().Chain)
	}
	if a, b := chain("public", NewTarget("v1")), chain("v1", nil); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("got %d blocks, and %d of a request for v1; want the same", len(a), len(b))
	}
}

func streamed(body, cuts []byte, target func(string) *Target) (string, bool) {
	w := NewRewriter(target, false)
	defer w.Release()
	var out []byte
	whole := pieces(body, cuts)
	for i, b := range whole {
		got, ok := w.Write(mem.BufferSlice{b}, i == len(whole)-1)
		if out = append(out, got.Materialize()...); !ok {
			return "", false
		}
	}
	return string(out), true
}

func TestRewriter_EachModelIsReplacedByItsOwn(t *testing.T) {
	own := func(model string) *Target {
		if model == "kept" {
			return nil
		}
		return NewTarget(model + "-v1")
	}
	const body = `{"a":1,"model":"first","model":5,"model":"kept","messages":["x"],"model":"la\u0073t"}`
	const want = `{"a":1,"model":"first-v1","model":5,"model":"kept","messages":["x"],"model":"last-v1"}`
	for _, cuts := range [][]byte{nil, {1}, {5, 1}, {16}} {
		if got, ok := streamed([]byte(body), cuts, own); got != want || !ok {
			t.Errorf("cut by %v: got %s, want %s", cuts, got, want)
		}
	}
	long := `{"model":"` + strings.Repeat("x", 3*maxValue) + `","model":"a"}`
	if got, _ := streamed([]byte(long), []byte{31}, own); got != strings.Replace(long, `"a"`, `"a-v1"`, 1) {
		t.Errorf("behind a long model: got ...%s, want a-v1 at the end", got[len(got)-40:])
	}
}

func FuzzSplice_EqualsCopy(f *testing.F) {
	f.Add([]byte("0123456789"), []byte{3, 0, 4}, []byte{1, 2, 0, 0, 5, 3})
	f.Fuzz(func(t *testing.T, body, cuts, places []byte) {
		var splices []Splice
		var want []byte
		at := 0
		for i := 0; i+1 < len(places) && len(body) > 0; i += 2 {
			start := at + int(places[i])
			end := start + int(places[i+1])%16
			if end > len(body) || start == end && start == at && i > 0 {
				break
			}
			with := bytes.Repeat([]byte{'#'}, int(places[i])%4)
			splices = append(splices, Splice{start, end, with})
			want = append(append(want, body[at:start]...), with...)
			at = end
		}
		want = append(want, body[at:]...)
		if got := Apply(pieces(body, cuts), splices).Materialize(); !bytes.Equal(got, want) ||
			len(got) != len(body)+Grown(splices) {
			t.Errorf("%q with %v is %q, want %q", body, splices, got, want)
		}
	})
}

func FuzzRewriter_ChunksMakeNoDifference(f *testing.F) {
	for _, s := range []string{`{"model":"a","x":[1,{"model":"b"}]}`, `{"model":"a\"","model":{},"model":"c"}`,
		`{"mod\u0065l":"\u00e9","a":""}`, `{"model":,"model":"a"}`, `{"model":"a`} {
		f.Add([]byte(s), []byte{1, 3})
	}
	to := NewTarget("to")
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		draw := func(string) *Target { return to }
		whole, ok := streamed(body, nil, draw)
		got, alsoOK := streamed(body, cuts, draw)
		if !ok || !alsoOK {
			return
		}
		if got != whole {
			t.Fatalf("%q cut by %v is %q, want %q as of the whole", body, cuts, got, whole)
		}
		var original, changed struct {
			Model any `json:"model"`
			Rest  map[string]json.RawMessage
		}
		if !json.Valid(body) || json.Unmarshal(body, &original.Rest) != nil {
			return
		}
		_ = json.Unmarshal(original.Rest["model"], &original.Model)
		buffered, _ := replaced(OtherKind, body, cuts, to)
		if err := json.Unmarshal([]byte(buffered), &changed.Rest); err != nil {
			t.Fatalf("%q became %q, want JSON: %v", body, buffered, err)
		}
		_ = json.Unmarshal(changed.Rest["model"], &changed.Model)
		if name, text := original.Model.(string); text && name != "" && len(original.Rest["model"]) < maxValue &&
			!strings.Contains(string(original.Rest["model"]), `\`) && changed.Model != "to" {
			t.Fatalf(`%q became %q, want the model "to"`, body, buffered)
		}
		for key, value := range original.Rest {
			if key != "model" && !bytes.Equal(value, changed.Rest[key]) {
				t.Fatalf("%q became %q: %q changed, want the model alone", body, buffered, key)
			}
		}
	})
}
