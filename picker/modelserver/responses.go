package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// responsesAPI is OpenAI's Responses API without stored responses, like vLLM without
// VLLM_ENABLE_RESPONSES_API_STORE.
var responsesAPI = api{
	prefix: "resp", fail: writeError,
	prompt: (*fields).responsesPrompt,
	limit:  func(f *fields) (*int, error) { return atLeastOne("max_output_tokens", f.MaxOutputTokens) },
	whole: func(r *reply) any {
		whole, _, _ := r.responseEnded()
		return whole
	},
	events: (*reply).responseEvents,
}

// last is the last text of the input.
func (f *fields) responsesPrompt() (last string, words []string, err error) {
	if f.PreviousResponseID != "" {
		return "", nil,
			&apiError{http.StatusNotFound, "NotFoundError",
				"Response with id '" + f.PreviousResponseID + "' not found: this simulator stores no responses."}
	}
	if absent(f.Input) {
		return "", nil, badRequest("input is missing")
	}
	words = strings.Fields(f.Instructions)
	if json.Unmarshal(f.Input, &last) == nil {
		return last, append(words, strings.Fields(last)...), nil
	}
	var items []struct {
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(f.Input, &items) != nil || len(items) == 0 {
		return "", nil, badRequest("input is neither a string nor a list of items")
	}
	for i, item := range items {
		if len(item.Content) == 0 {
			item.Content = item.Output
		}
		if last, err = contentText(item.Content); err != nil {
			return "", nil, badRequest("input[%d].content: %v", i, err)
		}
		words = append(words, strings.Fields(last)...)
	}
	return last, words, nil
}

func (r *reply) response(status string, output ...object) object {
	return object{
		"id": r.id, "object": "response", "created_at": r.created, "model": r.model, "status": status,
		"incomplete_details": nil, "output": append([]object{}, output...), "usage": nil,
		"text": object{"format": object{"type": "text"}},
	}
}

func (r *reply) responseEnded() (whole, item, part object) {
	status := "completed"
	if r.finish == "length" {
		status = "incomplete"
	}
	part = outputText(r.text())
	item = r.outputItem(status, part)
	whole = r.response(status, item)
	if r.finish == "length" {
		whole["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	whole["usage"] = object{
		"input_tokens": r.tokens.PromptTokens, "input_tokens_details": promptDetails{r.tokens.cached()},
		"output_tokens": r.tokens.CompletionTokens, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": r.tokens.TotalTokens,
	}
	return whole, item, part
}

func outputText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []string{}}
}

func (r *reply) outputItem(status string, content ...object) object {
	return object{"id": "msg-" + r.id, "type": "message", "role": "assistant", "status": status,
		"content": append([]object{}, content...)}
}

func (r *reply) responseEvents() stream {
	sequence := -1
	next := func(name string, e object) event {
		sequence++
		e["type"], e["sequence_number"] = "response."+name, sequence
		if e["response"] == nil {
			e["output_index"] = 0
		}
		if e["response"] == nil && e["item"] == nil {
			e["item_id"], e["content_index"] = "msg-"+r.id, 0
		}
		return event{"response." + name, e}
	}
	return stream{
		queued: func() []event {
			return []event{
				next("created", object{"response": r.response("in_progress")}),
				next("in_progress", object{"response": r.response("in_progress")}),
			}
		},
		first: func() []event {
			return []event{
				next("output_item.added", object{"item": r.outputItem("in_progress")}),
				next("content_part.added", object{"part": outputText("")}),
			}
		},
		piece: func(_ int, text string) event { return next("output_text.delta", object{"delta": text}) },
		last: func() []event {
			whole, item, part := r.responseEnded() // vLLM always ends with response.completed
			return []event{
				next("output_text.done", object{"text": r.text()}),
				next("content_part.done", object{"part": part}),
				next("output_item.done", object{"item": item}),
				next("completed", object{"response": whole}),
			}
		},
	}
}
