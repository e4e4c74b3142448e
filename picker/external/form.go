package external

import "bytes"

// Form is the JSON form of a field such as "prompt" in OpenAI's API.
type Form uint8

const (
	OtherForm Form = iota // neither a string nor a list
	TextForm
	TextsForm // a list whose first element is a string
	ListForm
)

// FormOf returns the form of a JSON value by its first byte, and by a list's first element.
func FormOf(raw []byte) Form {
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		return TextForm
	case raw[0] == '[' && bytes.HasPrefix(bytes.TrimLeft(raw[1:], " \t\r\n"), []byte{'"'}):
		return TextsForm
	case raw[0] == '[':
		return ListForm
	}
	return OtherForm
}
