package picker

import "bytes"

// maxTail is how much of the end of a response is searched for the tokens that it took.
const maxTail = 4 << 10

// usageReader keeps the end of a response's body, where model servers report its tokens.
type usageReader struct{ tail []byte }

// Members of a response that have numbers of tokens, in the forms of OpenAI's APIs and of
// Anthropic's.
var (
	usageOutput = []string{`"completion_tokens":`, `"output_tokens":`}
	usageCached = []string{`"cached_tokens":`, `"cache_read_input_tokens":`}
)

func (u *usageReader) write(p []byte) {
	if len(p) >= maxTail {
		u.tail = append(u.tail[:0], p[len(p)-maxTail:]...)
		return
	}
	if over := len(u.tail) + len(p) - maxTail; over > 0 {
		u.tail = append(u.tail[:0], u.tail[over:]...)
	}
	u.tail = append(u.tail, p...)
}

// number returns the last number that one of some members has; 0 without one.
func (u *usageReader) number(members []string) (n int) {
	at := -1
	for _, m := range members {
		if i := bytes.LastIndex(u.tail, []byte(m)); i >= 0 {
			at = max(at, i+len(m))
		}
	}
	if at < 0 {
		return 0
	}
	for _, c := range bytes.TrimLeft(u.tail[at:], " ") {
		if c < '0' || c > '9' || n > 1<<30 {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
