package models

import (
	"encoding/json"
	"testing"
)

func FuzzModels_ListsOfServersAreBounded(f *testing.F) {
	for _, s := range []string{
		`{"data":[{"id":"a","created":1e300,"owned_by":"b\n","parent":"a"},{"id":"a"},{"id":"\u0000"}]}`,
		`{"data":[{"id":7}]}`, `[]`, `{"data":{"id":"a"}}`, "{\"data\":[{\"id\":\"\xff\"}]}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		found, err := parse(body, 4)
		if err != nil && found != nil || len(found) > 4 {
			t.Fatalf("%d models, %v; want at most 4, and none with an error", len(found), err)
		}
		var list struct {
			Object string
			Data   []Model
		}
		text := Encode(found)
		if err := json.Unmarshal([]byte(text), &list); err != nil || list.Object != "list" ||
			len(list.Data) > len(found) || len(text) > 100+4*6*3*maxName+4*200 {
			t.Fatalf("%v: %d bytes: %.500s\nwant a list of at most the models that were found", err, len(text), text)
		}
		names := map[string]bool{}
		for _, m := range list.Data {
			if names[m.ID] || !named(m.ID) || m.Object != "model" || m.Created < 0 || m.Parent == m.ID {
				t.Errorf("got %+v, want a model with a name of its own, no parent of itself, and a time of 0 or later",
					m)
			}
			names[m.ID] = true
		}
	})
}
