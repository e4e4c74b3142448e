package commands

import (
	"fmt"

	"github.com/tiktoken-go/tokenizer/codec"
)

// vocabulary returns a tokenizer. It reads invalid UTF-8 as U+FFFD, and special tokens as plain
// text.
func vocabulary(name string) (func(text string) ([]uint32, error), error) {
	var c *codec.Codec
	switch name {
	case "o200k_base":
		c = codec.NewO200kBase()
	case "cl100k_base":
		c = codec.NewCl100kBase()
	default:
		return nil, fmt.Errorf("--encoding %q is unknown: write o200k_base or cl100k_base", name)
	}
	c.SetErrorMode(codec.ErrorModeReplace)
	return func(text string) ([]uint32, error) {
		ids, _, err := c.Encode(text)
		out := make([]uint32, len(ids))
		for i, id := range ids {
			out[i] = uint32(id)
		}
		return out, err
	}, nil
}
