package modelserver

import (
	"net/http"
	"strings"
)

type anthropicMessage struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Role         string           `json:"role"`
	Content      []anthropicBlock `json:"content"`
	Model        string           `json:"model"`
	StopReason   *string          `json:"stop_reason"`
	StopSequence *string          `json:"stop_sequence"`
	Usage        anthropicUsage   `json:"usage"`
}

type anthropicBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// anthropicUsage counts cached tokens apart from the input tokens.
type anthropicUsage struct {
	InputTokens         int `json:"input_tokens"`
	CacheCreationTokens int `json:"cache_creation_input_tokens"`
	CacheReadTokens     int `json:"cache_read_input_tokens"`
	OutputTokens        int `json:"output_tokens"`
}

// anthropicEvent is an event of a streamed answer. Each type has some of the members.
type anthropicEvent struct {
	Type    string            `json:"type"`
	Message *anthropicMessage `json:"message,omitempty"`
	Index   *int              `json:"index,omitempty"`
	Block   *anthropicBlock   `json:"content_block,omitempty"`
	Delta   any               `json:"delta,omitempty"` // a block, or an anthropicStop
	Usage   *anthropicUsage   `json:"usage,omitempty"`
}

type anthropicStop struct {
	Reason   string  `json:"stop_reason"`
	Sequence *string `json:"stop_sequence"`
}

var messagesAPI = api{
	prefix: "msg", fail: writeAnthropicError,
	prompt: func(f *fields) (string, []string, error) {
		system, err := contentText(f.System)
		if err != nil {
			return "", nil, badRequest("system: %v", err)
		}
		last, words, err := f.chatPrompt()
		return last, append(strings.Fields(system), words...), err
	},
	limit: func(f *fields) (*int, error) {
		if f.MaxTokens == nil {
			return nil, badRequest("max_tokens is missing")
		}
		return atLeastOne("max_tokens", f.MaxTokens)
	},
	whole: func(r *reply) any {
		m, reason := r.message(r.tokens.CompletionTokens), r.stopReason()
		m.Content, m.StopReason = []anthropicBlock{{"text", r.text()}}, &reason
		return m
	},
	events: (*reply).messageEvents,
}

func (r *reply) message(outputTokens int) *anthropicMessage {
	return &anthropicMessage{ID: r.id, Type: "message", Role: "assistant", Content: []anthropicBlock{}, Model: r.model,
		Usage: r.anthropicUsage(outputTokens)}
}

func (r *reply) anthropicUsage(outputTokens int) anthropicUsage {
	cached := r.tokens.cached()
	return anthropicUsage{InputTokens: r.tokens.PromptTokens - cached, CacheReadTokens: cached,
		OutputTokens: outputTokens}
}

func (r *reply) stopReason() string {
	if r.finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

// messageEvents has Anthropic's events and a final [DONE], which vLLM adds.
func (r *reply) messageEvents() stream {
	zero := 0
	named := func(e anthropicEvent) event { return event{e.Type, e} }
	return stream{
		first: func() []event {
			return []event{
				named(anthropicEvent{Type: "message_start", Message: r.message(0)}),
				named(anthropicEvent{Type: "content_block_start", Index: &zero, Block: &anthropicBlock{Type: "text"}}),
			}
		},
		piece: func(_ int, text string) event {
			return named(anthropicEvent{Type: "content_block_delta", Index: &zero,
				Delta: anthropicBlock{"text_delta", text}})
		},
		last: func() []event {
			tokens := r.anthropicUsage(r.tokens.CompletionTokens)
			return []event{
				named(anthropicEvent{Type: "content_block_stop", Index: &zero}),
				named(anthropicEvent{Type: "message_delta", Delta: anthropicStop{Reason: r.stopReason()},
					Usage: &tokens}),
				named(anthropicEvent{Type: "message_stop"}),
				done,
			}
		},
	}
}

// writeAnthropicError writes an error in Anthropic's form, with vLLM's types.
func writeAnthropicError(w http.ResponseWriter, e *apiError) {
	writeStatus(w, e.status,
		map[string]any{"type": "error", "error": map[string]string{"type": e.kind, "message": e.message}})
}
