package preprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/picker/external"
)

type fields struct {
	Route        json.RawMessage `json:"route"`
	Messages     []message       `json:"messages"`
	Prompt       json.RawMessage `json:"prompt"`
	Input        json.RawMessage `json:"input"`
	Instructions json.RawMessage `json:"instructions"`
	System       json.RawMessage `json:"system"`
	Tools        json.RawMessage `json:"tools"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

var errNoPrompt = errors.New("request_body has no prompt: neither messages, nor prompt, nor input")

func (f *fields) text() (string, []uint32, error) {
	var b strings.Builder
	line := func(role, text string) {
		if text != "" {
			b.WriteString(role + ": " + text + "\n")
		}
	}
	if present(f.Tools) {
		line("tools", string(f.Tools))
	}
	for _, head := range []struct {
		field string
		raw   json.RawMessage
	}{{"instructions", f.Instructions}, {"system", f.System}} {
		text, err := content(head.raw)
		if err != nil {
			return "", nil, fmt.Errorf("request_body.%s %w", head.field, err)
		}
		line("system", text)
	}
	switch {
	case len(f.Messages) > 0:
		if err := lines(line, "messages", f.Messages); err != nil {
			return "", nil, err
		}
	case present(f.Prompt):
		return plain(f.Prompt)
	case present(f.Input):
		var messages []message
		if external.FormOf(f.Input) == external.TextForm {
			text, _ := content(f.Input) // no error for a JSON string
			line("user", text)
		} else if err := json.Unmarshal(f.Input, &messages); err != nil {
			return "", nil, errors.New("request_body.input is neither a text nor a list of messages")
		} else if err := lines(line, "input", messages); err != nil {
			return "", nil, err
		}
	}
	if b.Len() == 0 {
		return "", nil, errNoPrompt
	}
	return b.String(), nil, nil
}

func lines(line func(role, text string), field string, messages []message) error {
	for i, m := range messages {
		text, err := content(m.Content)
		if err != nil {
			return fmt.Errorf("request_body.%s[%d].content %w", field, i, err)
		}
		line(m.Role, text)
	}
	return nil
}

func plain(raw json.RawMessage) (string, []uint32, error) {
	var text string
	var texts []string
	var tokens []uint32
	switch external.FormOf(raw) {
	case external.TextForm:
		if err := json.Unmarshal(raw, &text); err != nil || text == "" {
			return "", nil, errNoPrompt
		}
		return text, nil, nil
	case external.TextsForm:
		if json.Unmarshal(raw, &texts) == nil && len(texts) == 1 && texts[0] != "" {
			return texts[0], nil, nil
		}
	case external.ListForm:
		if json.Unmarshal(raw, &tokens) == nil && len(tokens) > 0 {
			return "", tokens, nil
		}
	}
	return "", nil, errors.New("request_body.prompt is neither a text, nor a list of one text, nor a list of token IDs")
}

func content(raw json.RawMessage) (string, error) {
	var text string
	var parts []struct {
		Text string `json:"text"`
	}
	switch form := external.FormOf(raw); {
	case !present(raw):
		return "", nil
	case form == external.TextForm:
		return text, json.Unmarshal(raw, &text)
	case json.Unmarshal(raw, &parts) != nil:
		return "", errors.New("is neither a text nor a list of parts")
	}
	var texts []string
	for _, part := range parts {
		if part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, " "), nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
