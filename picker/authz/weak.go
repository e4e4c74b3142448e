package authz

import (
	"strings"
	"sync"
)

// weak has the first 8 bytes of the hashes of weak keys: well-known keys, and repetitions such as
// 33 equal characters or abcabcabc.
var weak = sync.OnceValue(func() map[[8]byte]bool {
	out := map[[8]byte]bool{}
	add := func(key string) {
		h := HashOf(key)
		out[[8]byte(h[:])] = true
	}
	for _, key := range []string{
		"", "\n", "-", "0", "1", "1234", "12345", "123456", "12345678", "123456789", "abc", "abc123", "abcdef",
		"admin", "anything", "api-key", "api_key", "apikey", "bearer", "changeme", "default", "demo", "dummy",
		"dummy-key", "dummy_key", "empty", "EMPTY", "example", "fake", "fake-key", "foo", "foobar", "key", "letmein",
		"lm-studio", "localhost", "master", "mykey", "my-key", "na", "n/a", "no-key", "no-key-required", "none",
		"None", "not-needed", "not-used", "null", "ollama", "openai", "password", "placeholder", "random", "sample",
		"secret", "sk-", "sk-0", "sk-1234", "sk-12345", "sk-123456", "sk-1234567890", "sk-abc", "sk-abc123",
		"sk-dummy", "sk-empty", "sk-fake", "sk-master", "sk-no-key-required", "sk-none", "sk-not-needed", "sk-proj-",
		"sk-ps-", "sk-test", "sk-xxx", "sk-xxxx", "test", "test-key", "test123", "testkey", "token", "token-abc123",
		"undefined", "unused", "user", "vllm", "xxx", "xxxx", "your-api-key", "YOUR_API_KEY", "your_api_key",
	} {
		add(key)
	}
	texts := []string{"0123456789", "1234567890", "9876543210", "0123456789abcdef", "abcdefghijklmnopqrstuvwxyz",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "qwertyuiop", "12", "123", "1234", "12345", "123456", "ab", "abc", "abcd",
		"abc123", "deadbeef", "cafebabe", "test", "key", "secret", "password"}
	for c := '!'; c <= '~'; c++ {
		texts = append(texts, string(c))
	}
	for _, text := range texts {
		long := strings.Repeat(text, longestRepeated)[:longestRepeated]
		for n := 1; n <= longestRepeated; n++ {
			add(long[:n])
			add("sk-" + long[:n])
		}
	}
	return out
})

const longestRepeated = 64

// Weak reports whether a hash is of a key that is empty, well-known, or a repetition of a short
// text.
func Weak(h Hash) bool { return weak()[[8]byte(h[:])] }

// MinUnexpected is how many unexpected characters (Guessable) make a key hard to guess.
const MinUnexpected = 12

// Guessable reports whether a key has fewer than MinUnexpected unexpected characters. A character
// is expected if it equals or is next to the character before, as in aaa, 123 and cba. It is also
// expected if the same character follows the same two characters earlier in the key, as in abcabc.
// A random key of 16 hexadecimal digits has about 13 unexpected characters.
func Guessable(key string) bool {
	unexpected := 0
	for i := range len(key) {
		switch {
		case i > 0 && key[i]-key[i-1]+1 <= 2: // a difference of -1, 0 or 1
		case i > 2 && strings.Contains(key[:i], key[i-2:i+1]):
		default:
			unexpected++
		}
	}
	return unexpected < MinUnexpected
}
