package authz

var weak = func() map[Hash]bool {
	out := map[Hash]bool{}
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
		out[HashOf(key)] = true
	}
	return out
}()

// Weak reports whether a hash is of an empty or well-known key.
func Weak(h Hash) bool { return weak[h] }
