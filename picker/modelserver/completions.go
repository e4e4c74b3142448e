package modelserver

type answer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"` // Unix seconds
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int          `json:"index"`
	Message *chatMessage `json:"message,omitempty"` // if not streamed
	Delta   *chatMessage `json:"delta,omitempty"`   // if streamed
	Text    *string      `json:"text,omitempty"`
	Finish  *string      `json:"finish_reason"`
}

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

var chatAPI = api{
	prefix: "chatcmpl", fail: writeError,
	prompt: (*fields).chatPrompt,
	limit: func(f *fields) (*int, error) {
		if f.MaxCompletionTokens != nil {
			return atLeastOne("max_completion_tokens", f.MaxCompletionTokens)
		}
		return atLeastOne("max_tokens", f.MaxTokens)
	},
	whole: func(r *reply) any {
		text := r.text()
		return r.completion("chat.completion", choice{
			Message: &chatMessage{Role: "assistant", Content: &text}, Finish: &r.finish,
		})
	},
	events: func(r *reply) stream {
		return r.completionEvents("chat.completion.chunk", func(i int, text string) choice {
			c := choice{Delta: &chatMessage{Content: &text}}
			if i == 0 {
				c.Delta.Role = "assistant"
			}
			return c
		})
	},
}

var completionsAPI = api{
	prefix: "cmpl", fail: writeError,
	prompt: func(f *fields) (string, []string, error) { return promptText("prompt", f.Prompt) },
	limit: func(f *fields) (*int, error) {
		if f.MaxTokens == nil {
			sixteen := 16 // OpenAI's default
			return &sixteen, nil
		}
		return atLeastOne("max_tokens", f.MaxTokens)
	},
	whole: func(r *reply) any {
		text := r.text()
		return r.completion("text_completion", choice{Text: &text, Finish: &r.finish})
	},
	events: func(r *reply) stream {
		return r.completionEvents("text_completion", func(_ int, text string) choice { return choice{Text: &text} })
	},
}

func (r *reply) completion(object string, c choice) answer {
	return answer{ID: r.id, Object: object, Created: r.created, Model: r.model, Choices: []choice{c}, Usage: &r.tokens}
}

func (r *reply) completionEvents(object string, piece func(i int, text string) choice) stream {
	chunk := func(choices []choice, tokens *usage) event {
		return event{
			data: answer{ID: r.id, Object: object, Created: r.created, Model: r.model, Choices: choices, Usage: tokens},
		}
	}
	return stream{
		piece: func(i int, text string) event { return chunk([]choice{piece(i, text)}, nil) },
		last: func() []event {
			end := piece(-1, "")
			end.Finish = &r.finish
			events := []event{chunk([]choice{end}, nil)}
			if r.usage {
				events = append(events, chunk([]choice{}, &r.tokens))
			}
			return append(events, done)
		},
	}
}
