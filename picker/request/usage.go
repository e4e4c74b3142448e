package request

import (
	"bytes"
	"encoding/json"

	"google.golang.org/grpc/mem"
)

// IncludeUsage leaves a "stream_options" of more than maxOptions bytes unchanged.
const maxOptions = 4 << 10

// FindStreamOptions enables IncludeUsage. It must precede the first Write.
func (s *Scanner) FindStreamOptions() { s.top.on, s.top.options = true, true }

// IncludeUsage makes Splices set stream_options.include_usage in the body of a streamed completion
// or chat completion, so that the server reports the stream's tokens. The client's other options
// stay. Other requests stay unchanged.
func (s *Scanner) IncludeUsage(body mem.BufferSlice) {
	if !s.stream || s.kind != ChatCompletions && s.kind != Completions || s.top.tooMany || s.NotUTF8() {
		return
	}
	var last *topMember
	for i := range s.top.list {
		if m := &s.top.list[i]; m.name == MemberStreamOptions {
			last = m // as in model servers' parsers, the last member counts
		}
	}
	if last == nil {
		if at := opening(body); at > 0 {
			s.usage = []Splice{{at, at, []byte(`"stream_options":{"include_usage":true},`)}}
		}
		return
	}
	if last.end-last.key > maxOptions {
		return
	}
	member := bytesOf(body, last.key, last.end)
	start := keyEnd(member)
	colon := bytes.IndexByte(member[start:], ':')
	if colon < 0 {
		return
	}
	start += colon + 1
	var options map[string]json.RawMessage
	if json.Unmarshal(member[start:], &options) != nil {
		return // the server will answer 400
	}
	if string(options["include_usage"]) == "true" {
		return
	}
	if options == nil {
		options = map[string]json.RawMessage{}
	}
	options["include_usage"] = json.RawMessage("true")
	with, err := json.Marshal(options)
	if err != nil {
		return
	}
	s.usage = []Splice{{last.key + start, last.end, with}}
}

func keyEnd(member []byte) int {
	for i := 1; i < len(member); i++ {
		switch member[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(member)
}

func opening(body mem.BufferSlice) (at int) {
	for _, b := range body {
		for _, c := range b.ReadOnlyData() {
			at++
			switch c {
			case '{':
				return at
			case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // blanks, and the byte order mark
			default:
				return 0
			}
		}
	}
	return 0
}

func bytesOf(body mem.BufferSlice, start, end int) []byte {
	out := make([]byte, 0, end-start)
	for _, b := range body {
		data := b.ReadOnlyData()
		if from, to := max(start, 0), min(end, len(data)); from < to {
			out = append(out, data[from:to]...)
		}
		start, end = start-len(data), end-len(data)
	}
	return out
}
