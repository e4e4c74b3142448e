package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

type response struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	CreatedAt int64  `json:"created_at"` // Unix seconds
	Model     string `json:"model"`
	// in_progress, completed, or incomplete if max_output_tokens cut the answer
	Status     string          `json:"status"`
	Incomplete *incomplete     `json:"incomplete_details"`
	Output     []outputItem    `json:"output"`
	Text       map[string]any  `json:"text"`
	Usage      *responsesUsage `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type outputItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Content []outputText `json:"content"`
}

type outputText struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	Annotations []string `json:"annotations"` // always empty
}

type responsesUsage struct {
	InputTokens   int           `json:"input_tokens"`
	InputDetails  promptDetails `json:"input_tokens_details"`
	OutputTokens  int           `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

// responseEvent is an event of a streamed answer. Its indexes are always 0: there is one item with
// one part.
type responseEvent struct {
	Type     string      `json:"type"`
	Sequence int         `json:"sequence_number"`
	Response *response   `json:"response,omitempty"`
	ItemID   string      `json:"item_id,omitempty"`
	Output   *int        `json:"output_index,omitempty"`
	Content  *int        `json:"content_index,omitempty"`
	Item     *outputItem `json:"item,omitempty"`
	Part     *outputText `json:"part,omitempty"`
	Delta    *string     `json:"delta,omitempty"`
	Text     *string     `json:"text,omitempty"`
}

// responsesAPI is OpenAI's Responses. No response is stored, as in vLLM without
// VLLM_ENABLE_RESPONSES_API_STORE.
var responsesAPI = api{
	prefix: "resp", fail: writeError,
	prompt: (*fields).responsesPrompt,
	limit:  func(f *fields) (*int, error) { return atLeastOne("max_output_tokens", f.MaxOutputTokens) },
	whole:  func(r *reply) any { return r.response() },
	events: (*reply).responseEvents,
}

// responsesPrompt returns the last text of the input, and the words of the instructions and the
// whole input.
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
		Output  json.RawMessage `json:"output"` // of a function call
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

func (r *reply) response() *response {
	a := r.responseBegun()
	a.Status = "completed"
	if r.finish == "length" {
		a.Status, a.Incomplete = "incomplete", &incomplete{"max_output_tokens"}
	}
	a.Output = []outputItem{r.outputItem(a.Status, outputText{"output_text", r.text(), []string{}})}
	a.Usage = &responsesUsage{
		InputTokens: r.tokens.PromptTokens, InputDetails: promptDetails{r.tokens.cached()},
		OutputTokens: r.tokens.CompletionTokens, TotalTokens: r.tokens.TotalTokens,
	}
	return a
}

func (r *reply) responseBegun() *response {
	return &response{
		ID: r.id, Object: "response", CreatedAt: r.created, Model: r.model, Status: "in_progress",
		Output: []outputItem{},
		Text:   map[string]any{"format": map[string]string{"type": "text"}},
	}
}

func (r *reply) outputItem(status string, content ...outputText) outputItem {
	if content == nil {
		content = []outputText{}
	}
	return outputItem{ID: "msg-" + r.id, Type: "message", Role: "assistant", Status: status, Content: content}
}

func (r *reply) responseEvents() stream {
	sequence, zero := 0, 0
	next := func(e responseEvent) event {
		e.Sequence = sequence
		sequence++
		if e.Response == nil {
			e.Output = &zero
			if e.Item == nil {
				e.ItemID, e.Content = "msg-"+r.id, &zero
			}
		}
		return event{e.Type, e}
	}
	return stream{
		queued: func() []event {
			return []event{
				next(responseEvent{Type: "response.created", Response: r.responseBegun()}),
				next(responseEvent{Type: "response.in_progress", Response: r.responseBegun()}),
			}
		},
		first: func() []event {
			item := r.outputItem("in_progress")
			return []event{
				next(responseEvent{Type: "response.output_item.added", Item: &item}),
				next(responseEvent{Type: "response.content_part.added",
					Part: &outputText{"output_text", "", []string{}}}),
			}
		},
		piece: func(_ int, text string) event {
			return next(responseEvent{Type: "response.output_text.delta", Delta: &text})
		},
		last: func() []event {
			whole := r.response() // vLLM ends with response.completed whatever the status is
			item := whole.Output[0]
			return []event{
				next(responseEvent{Type: "response.output_text.done", Text: &item.Content[0].Text}),
				next(responseEvent{Type: "response.content_part.done", Part: &item.Content[0]}),
				next(responseEvent{Type: "response.output_item.done", Item: &item}),
				next(responseEvent{Type: "response.completed", Response: whole}),
			}
		},
	}
}
