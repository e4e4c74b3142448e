package picker

import "bytes"

// maxTail bounds the end of a response that is searched for its token usage, in bytes.
const maxTail = 4 << 10

type usageReader struct{ tail []byte }

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
