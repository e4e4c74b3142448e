package main

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/penstock-project/penstock/picker/simulation"
)

const model = "llama"

// vocabulary has words of four or five characters with their space. penstock sim counts each word
// as one token.
var vocabulary = func() (words []string) {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	for _, a := range consonants {
		for _, b := range vowels {
			words = append(words, string(a)+string(b))
			for _, c := range consonants {
				words = append(words, string(a)+string(b)+string(c), string(a)+string(b)+string(c)+"a")
			}
		}
	}
	return words
}()

func appendBlock(text []byte, block uint64, n int) []byte {
	random := rand.New(rand.NewPCG(block, 1))
	for range n {
		text = append(append(text, vocabulary[random.IntN(len(vocabulary))]...), ' ')
	}
	return text
}

func (r *request) body() []byte {
	text := make([]byte, 0, 6*r.input)
	for i, block := range r.blocks {
		text = appendBlock(text, block, min(simulation.BlockTokens, r.input-i*simulation.BlockTokens))
	}
	out, err := json.Marshal(map[string]any{
		"model": model, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"max_tokens": r.output, "ignore_eos": true,
		"messages": []any{map[string]string{"role": "user", "content": string(text)}},
	})
	if err != nil {
		panic(err) // cannot fail: the fields are strings and numbers
	}
	return out
}
