package request

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/picker/prefix"
)

type reference struct {
	facts       Facts
	model       []byte
	salt        uint64
	front, rest prefix.Builder
}

type jsonMember struct {
	key   string
	value json.RawMessage
}

func members(raw []byte) (all []jsonMember) {
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			panic(err)
		}
		m := jsonMember{key: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			panic(err)
		}
		all = append(all, m)
	}
	return all
}

func elements(raw []byte) (all []json.RawMessage) {
	if json.Unmarshal(raw, &all) != nil {
		panic("not an array")
	}
	return all
}

func (r *reference) read(k Kind, body []byte) Facts {
	r.facts = Facts{Kind: k, Size: len(body)}
	for _, m := range members(body) {
		text := string(m.value)
		switch m.key {
		case "model":
			r.model, r.facts.Model = nil, ""
			if text[0] == '"' && len(text) <= maxModel+2 {
				r.model = m.value[1 : len(text)-1]
				_ = json.Unmarshal(m.value, &r.facts.Model)
			}
			continue
		case "stream":
			r.facts.Stream = text == "true"
			continue
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			r.limit(m.value)
			continue
		}
		if k == OtherKind {
			continue
		}
		switch m.key {
		case "store":
			r.facts.Unstored = k == Responses && text == "false"
		case "previous_response_id":
			if r.facts.Previous = (ResponseID{}); k == Responses && text[0] == '"' && len(text) <= 6*maxResponseID+2 {
				var id string
				_ = json.Unmarshal(m.value, &id)
				r.facts.Previous = ResponseOf(id)
			}
		}
		switch m.key {
		case "cache_salt":
			r.salt = xxhash.Sum64(inner(m.value))
		case "messages", "prompt", "input", "token_ids":
			r.prompt(m.value, &r.rest, 1)
		case "query", "documents":
			if k == Rerank {
				r.prompt(m.value, &r.rest, 1)
			} else {
				r.front.Write(inner(m.value))
				r.front.Write(endOfText)
			}
		case "system", "instructions":
			r.content(m.value, &r.front, 1)
			if text[0] == '"' {
				r.front.Write(endOfText)
			}
		case "tools", "functions", "chat_template", "chat_template_kwargs", "reasoning", "reasoning_effort",
			"previous_response_id":
			r.front.Write(inner(m.value))
			r.front.Write(endOfText)
		case "features":
			if text == "null" {
				continue
			}
			r.front.Mix(xxhash.Sum64(inner(m.value)))
		case "sampling_params":
			if text[0] != '{' {
				continue
			}
			for _, m := range members(m.value) {
				if m.key == "max_tokens" {
					r.limit(m.value)
				}
			}
		}
	}
	if k != OtherKind {
		r.facts.Tokens = (r.front.Size() + r.rest.Size()) / 4
		r.facts.Chain = prefix.Join(new([prefix.MaxBlocks]uint64), prefix.Seed(r.salt, r.model), &r.front, &r.rest)
	}
	return r.facts
}

func (r *reference) limit(value json.RawMessage) {
	r.facts.MaxTokens = 0
	if n, ok := digits(string(value)); ok {
		r.facts.MaxTokens = int(min(n, maxInt))
	}
}

func inner(raw json.RawMessage) []byte {
	if raw[0] == '"' {
		return raw[1 : len(raw)-1]
	}
	return raw
}

func digits(text string) (uint64, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		for _, c := range text {
			if n = 0; c != '0' {
				break
			}
		}
		return saturated(text), true
	}
	return n, true
}

// saturated stops at the digit that exceeds 2^40, as Scanner does.
func saturated(text string) (n uint64) {
	for _, c := range text {
		if n < 1<<40 {
			n = 10*n + uint64(c-'0')
		}
	}
	return n
}

func (r *reference) prompt(raw json.RawMessage, to *prefix.Builder, depth int) {
	switch c := raw[0]; {
	case c == '"' || depth == maxDepth && (c == '[' || c == '{'):
		to.Write(inner(raw))
		to.Write(endOfText)
	case c == '[':
		for _, e := range elements(raw) {
			r.prompt(e, to, depth+1)
		}
		to.Mix(uint64(inPrompt))
	case c == '{':
		r.object(raw, to, depth+1, map[string]string{
			"role": "role", "content": "content", "text": "text", "cache_control": "-",
		})
		to.Write(endOfText)
	case depth == maxDepth:
		to.Write(raw)
		if n, ok := digits(string(raw)); ok {
			to.WriteToken(uint32(n))
		}
		to.Write(endOfText)
	default:
		if n, ok := digits(string(raw)); ok {
			to.WriteToken(uint32(n))
		}
	}
}

func (r *reference) content(raw json.RawMessage, to *prefix.Builder, depth int) {
	switch c := raw[0]; {
	case c == '"' || depth == maxDepth:
		to.Write(inner(raw))
	case c == '[':
		for _, e := range elements(raw) {
			r.content(e, to, depth+1)
		}
	case c == '{':
		r.object(raw, to, depth+1, map[string]string{
			"text": "text", "refusal": "text", "thinking": "text", "content": "content", "type": "-",
			"cache_control": "-",
			"image_url":     "image", "source": "image", "image": "image", "image_embeds": "image",
			"input_audio": "image",
			"audio_url":   "image", "video_url": "image", "file": "image", "file_data": "image",
		})
	}
}

func (r *reference) object(raw json.RawMessage, to *prefix.Builder, depth int, uses map[string]string) {
	for _, m := range members(raw) {
		isText := m.value[0] == '"' || depth == maxDepth
		switch use, known := uses[m.key]; {
		case !known:
			to.Write(inner(m.value))
		case use == "image" && string(m.value) == "null":
		case use == "image":
			r.facts.Media = true
			sum := xxhash.Sum64(inner(m.value))
			if len(r.facts.Items) < maxItems && !slices.Contains(r.facts.Items, sum) {
				r.facts.Items = append(r.facts.Items, sum)
			}
			to.Mix(sum)
		case use == "content":
			r.content(m.value, to, depth)
		case use == "text" && isText:
			to.Write(inner(m.value))
		case use == "role":
			if isText {
				to.Write(inner(m.value))
			}
			to.Write(endOfRole)
		}
	}
}
