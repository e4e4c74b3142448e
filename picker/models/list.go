package models

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Model is a base model or a LoRA adapter, as in OpenAI's API.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Parent  string `json:"parent,omitempty"`
}

// Limits of a model's name and of a response, in bytes, and of the numbers of models.
const (
	maxName   = 256
	maxAnswer = 256 // models in a server's list; a gateway may list maxList
	maxPool   = 4096
	maxList   = 1000
	maxBytes  = 1 << 20
)

func parse(body []byte, limit int) ([]Model, error) {
	var list struct {
		Data []struct {
			ID      string  `json:"id"`
			Created float64 `json:"created"`
			OwnedBy string  `json:"owned_by"`
			Parent  string  `json:"parent"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var out []Model
	for _, m := range list.Data {
		if !named(m.ID) || len(out) == limit {
			continue
		}
		found := Model{ID: m.ID, Object: "model"}
		if m.Created > 0 && m.Created < 1<<53 {
			found.Created = int64(m.Created)
		}
		if named(m.OwnedBy) {
			found.OwnedBy = m.OwnedBy
		}
		if named(m.Parent) && m.Parent != m.ID {
			found.Parent = m.Parent
		}
		out = append(out, found)
	}
	return out, nil
}

func named(text string) bool {
	return text != "" && len(text) <= maxName && !slices.ContainsFunc([]byte(text),
		func(c byte) bool { return c < ' ' || c == 0x7f })
}

// Encode returns a list as the response body to GET /v1/models. Of several models with one ID, the
// first counts.
func Encode(list []Model) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Model) int { return cmp.Compare(a.ID, b.ID) })
	list = slices.CompactFunc(list, func(a, b Model) bool { return a.ID == b.ID })
	// The copy prevents that a nil list becomes null.
	list = append([]Model{}, list[:min(len(list), maxList)]...)
	text, err := json.Marshal(struct {
		Object string  `json:"object"`
		Data   []Model `json:"data"`
	}{"list", list})
	if err != nil {
		return ""
	}
	return string(text)
}
