package file

import (
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxLocating = 4 << 20

// brokenLine returns the first line, from 0, that makes a text invalid YAML. The YAML library
// reports only the first line of the broken mapping, list or text.
func brokenLine(text string) (line int, found bool) {
	ends := []int{0}
	for line := range strings.Lines(text) {
		ends = append(ends, ends[len(ends)-1]+len(line))
	}
	// The library fails soon after it has read the broken line, so the search goes back from there.
	r := &lineReader{ends: ends, text: text}
	_ = yaml.NewDecoder(r).Decode(new(yaml.Node))
	left := maxLocating
	for n := r.begun - 1; n >= 0; n-- {
		if left -= ends[n]; left < 0 {
			return 0, false
		}
		if yaml.Unmarshal([]byte(text[:ends[n]]), new(yaml.Node)) == nil {
			return n, true
		}
	}
	return 0, false
}

type lineReader struct {
	text  string
	ends  []int
	begun int
	at    int
}

func (r *lineReader) Read(p []byte) (int, error) {
	if r.at == len(r.text) {
		return 0, io.EOF
	}
	if r.at == r.ends[r.begun] {
		r.begun++
	}
	n := copy(p, r.text[r.at:r.ends[r.begun]])
	r.at += n
	return n, nil
}
