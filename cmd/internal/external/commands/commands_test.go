package commands

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestTokenizer_KnownTexts(t *testing.T) {
	for name, want := range map[string][]uint32{
		"o200k_base":  {13225, 11, 2375, 0}, // tiktoken's result
		"cl100k_base": {9906, 11, 1917, 0},
	} {
		encode, err := vocabulary(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := encode("Hello, world!"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", name, got, err, want)
		}
		if got, err := encode("<|endoftext|>"); err != nil || len(got) < 2 {
			t.Errorf("%s: a special token in a prompt became %v: %v, want at least 2 of them", name, got, err)
		}
		if got, err := encode("a\xffb"); err != nil || len(got) == 0 {
			t.Errorf("%s: invalid UTF-8: got %v %v, want tokens", name, got, err)
		}
	}
	if _, err := vocabulary("gpt2"); err == nil || !strings.Contains(err.Error(), "o200k_base or cl100k_base") {
		t.Errorf("an unknown vocabulary: got %v, want an error with o200k_base or cl100k_base", err)
	}
}

// Clients choose prompts, so repeated characters must not be slower than other text.
func BenchmarkTokenizer(b *testing.B) {
	encode, err := vocabulary("o200k_base")
	if err != nil {
		b.Fatal(err)
	}
	for _, piece := range []string{"The quick brown fox. ", "a", "A", " ", "\n", "世", "1", "'s"} {
		b.Run(fmt.Sprintf("%q", piece), func(b *testing.B) {
			text := strings.Repeat(piece, 1<<20/len(piece))
			for b.Loop() {
				if _, err := encode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestCommands_InvalidFlagsNameTheFix(t *testing.T) {
	for line, want := range map[string]string{
		"processor --encoding gpt2":       "o200k_base or cl100k_base",
		"processor --router router:8080":  "http://HOST:PORT",
		"processor --tokens tokens":       "http://HOST:PORT",
		"router":                          "DNS name",
		"router --worker a":               "HOST:PORT",
		"router --worker a:1 --workers b": "HOST:PORT",
		"tokens --max-bytes 1Mi":          "must be at least 8388608",
		"tokens --ttl 0s":                 "--ttl",
		"tokens --listen nowhere":         "tokens: listen",
		"worker":                          "unknown command",
	} {
		root := New()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}
