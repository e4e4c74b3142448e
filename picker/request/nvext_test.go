package request

import (
	"bytes"
	"encoding/json"
	"testing"
)

// bare returns a body without the client's workers and token IDs, and with ids if set.
func bare(body, cuts []byte, ids string) (string, bool) {
	s := New(ChatCompletions)
	defer s.Release()
	whole := pieces(body, cuts)
	for _, b := range whole {
		s.Write(b.ReadOnlyData())
	}
	ok := s.RemoveWorkers()
	return string(Apply(whole, s.Edited(whole, Edit{TokenData: []byte(ids)})).Materialize()), ok
}

func TestNvext_WorkersAndTokensOfClientsAreRemoved(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{
			`{"nvext":{"token_data":[1, 2],"annotations":["a"],"backend_instance_id":7}}`,
			`{"nvext":{"token_data":null,"annotations":["a"],"backend_instance_id":null}}`,
		},
		{
			`{"n\u0076ext":{"decode_worker\u005fid" : 1 , "prefill_worker_id":2,"dp_rank":3,"prefill_dp_rank":{}}}`,
			`{"n\u0076ext":{"decode_worker\u005fid" : null , "prefill_worker_id":null,"dp_rank":null,` +
				`"prefill_dp_rank":null}}`,
		},
		{`{"nvext":{"dp_rank":"]}"},"nvext":{"dp_rank":2}}`, `{"nvext":{"dp_rank":null},"nvext":{"dp_rank":null}}`},
		{
			`{"x":{"nvext":{"dp_rank":1}},"nvext":null,"dp_rank":9007199254740993}`,
			`{"x":{"nvext":{"dp_rank":1}},"nvext":null,"dp_rank":9007199254740993}`,
		},
		{`{"nvext":{"agent_hints":{"dp_rank":1}}}`, `{"nvext":{"agent_hints":{"dp_rank":1}}}`},
	} {
		for _, cuts := range [][]byte{nil, {1}, {3, 7}} {
			if got, ok := bare([]byte(tt.body), cuts, ""); got != tt.want || !ok {
				t.Errorf("%s\nbecame %s\nwant   %s", tt.body, got, tt.want)
			}
		}
	}
	many := []byte(`{"nvext":{` + string(bytes.Repeat([]byte(`"dp_rank":1,`), 17)) + `"a":1}}`)
	if _, ok := bare(many, nil, ""); ok {
		t.Error("17 values are replaced")
	}
}

func TestNvext_TokensAreAdded(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m"}`:           `{"nvext":{"token_data":[1,2]},"model":"m"}`,
		"\n {\t}":                 "\n {\"nvext\":{\"token_data\":[1,2]}\t}",
		`{"a":"{","nvext": { } }`: `{"a":"{","nvext": {"token_data":[1,2] } }`,
		`{"nvext":{"dp_rank":12,"annotations":[]}}`: `{"nvext":{"token_data":[1,2],"dp_rank":null,"annotations":[]}}`,
		`{"nvext":{"dp_rank":12},"nvext":{}}`:       `{"nvext":{"dp_rank":null},"nvext":{"token_data":[1,2]}}`,
		// Dynamo's frontend tokenizes the prompt.
		`{"nvext":{"token_data":[5]}}`: `{"nvext":{"token_data":null}}`,
		`{"nvext":null}`:               `{"nvext":null}`,
		`["a"]`:                        `["a"]`,
	} {
		for _, cuts := range [][]byte{nil, {1}, {3, 7}} {
			if got, _ := bare([]byte(body), cuts, "[1,2]"); got != want {
				t.Errorf("%s\nbecame %s\nwant   %s", body, got, want)
			}
		}
	}
}

// However a body is cut, it stays the same JSON except for the picker's members.
func FuzzNvext_OtherMembersSurvive(f *testing.F) {
	for _, s := range []string{`{"nvext":{"token_data":[1],"a":1},"b":2}`, `{"nvext":{"dp_rank":1}`,
		`{"nvext":[{"dp_rank":1}],"nvext":{}}`, `{"nvext":,"x":1}`, `{"nv\u0065xt":{"dp_r\u0061nk":-1e5}}`} {
		f.Add([]byte(s), []byte{1, 3})
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		whole, ok := bare(body, nil, "[1,2]")
		got, alsoOK := bare(body, cuts, "[1,2]")
		if got != whole || ok != alsoOK {
			t.Fatalf("%q cut by %v is %q, want %q as of the whole", body, cuts, got, whole)
		}
		var original, changed map[string]any
		if !ok || !json.Valid(body) || json.Unmarshal(body, &original) != nil || original == nil {
			return
		}
		if err := json.Unmarshal([]byte(got), &changed); err != nil {
			t.Fatalf("%q became %q, want JSON: %v", body, got, err)
		}
		members, _ := changed["nvext"].(map[string]any)
		for key, value := range members {
			switch key {
			case "backend_instance_id", "decode_worker_id", "prefill_worker_id", "dp_rank", "prefill_dp_rank":
				if value != nil {
					t.Fatalf("%q became %q, which has %s; want it removed", body, got, key)
				}
			case "token_data":
				if ids, ok := value.([]any); value != nil && (!ok || len(ids) != 2 || ids[0] != 1.0) {
					t.Fatalf("%q became %q, want token_data [1,2]", body, got)
				}
			}
		}
		delete(original, "nvext")
		delete(changed, "nvext")
		before, _ := json.Marshal(original)
		after, _ := json.Marshal(changed)
		if !bytes.Equal(before, after) {
			t.Fatalf("%q became %q, want the other members unchanged", body, got)
		}
	})
}
