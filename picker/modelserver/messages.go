package modelserver

import (
	"net/http"
	"strings"
)

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
		m := r.message(r.tokens.CompletionTokens, object{"type": "text", "text": r.text()})
		m["stop_reason"] = r.stopReason()
		return m
	},
	events: (*reply).messageEvents,
}

func (r *reply) message(outputTokens int, content ...object) object {
	return object{"id": r.id, "type": "message", "role": "assistant", "content": append([]object{}, content...),
		"model": r.model, "stop_reason": nil, "stop_sequence": nil, "usage": r.messageUsage(outputTokens)}
}

func (r *reply) messageUsage(outputTokens int) object {
	cached := r.tokens.cached()
	return object{"input_tokens": r.tokens.PromptTokens - cached, "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": cached, "output_tokens": outputTokens}
}

func (r *reply) stopReason() string {
	if r.finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func (r *reply) messageEvents() stream {
	named := func(name string, e object) event {
		e["type"] = name
		return event{name, e}
	}
	return stream{
		first: func() []event {
			return []event{
				named("message_start", object{"message": r.message(0)}),
				named("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}}),
			}
		},
		piece: func(_ int, text string) event {
			return named("content_block_delta", object{"index": 0,
				"delta": object{"type": "text_delta", "text": text}})
		},
		last: func() []event {
			return []event{
				named("content_block_stop", object{"index": 0}),
				named("message_delta", object{"delta": object{"stop_reason": r.stopReason(), "stop_sequence": nil},
					"usage": r.messageUsage(r.tokens.CompletionTokens)}),
				named("message_stop", object{}),
				done,
			}
		},
	}
}

func writeAnthropicError(w http.ResponseWriter, e *apiError) {
	writeStatus(w, e.status,
		map[string]any{"type": "error", "error": map[string]string{"type": e.kind, "message": e.message}})
}
