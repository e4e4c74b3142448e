package memory

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// safetensors collects the tensors' sizes from the headers of safetensors files. A file has the
// length of the header in 8 bytes, the header as JSON, and the data
// (https://huggingface.co/docs/safetensors).
type safetensors struct {
	left  int64 // bytes of headers that may still be read
	bytes map[string]tensor
}

type tensor struct {
	Type    string   `json:"dtype"`
	Offsets [2]int64 `json:"data_offsets"`
}

func (t tensor) size() int64 { return t.Offsets[1] - t.Offsets[0] }

// floats has the data types that an engine converts to its own type, with the size of an element in
// bytes.
var floats = map[string]int64{"F64": 8, "F32": 4, "F16": 2, "BF16": 2}

func (s *safetensors) read(f io.Reader, size int64) error {
	var length uint64
	if err := binary.Read(f, binary.LittleEndian, &length); err != nil {
		return unknown("the file has no header")
	}
	if size < 8 || length > uint64(size-8) || length > uint64(s.left) {
		return unknown("a header of %d bytes", length)
	}
	s.left -= int64(length)
	var header map[string]json.RawMessage
	if err := decode(io.LimitReader(f, int64(length)), int64(length), maxHeader, &header); err != nil {
		return err
	}
	data, sum := size-8-int64(length), int64(0)
	for name, raw := range header {
		if name == "__metadata__" {
			continue
		}
		var t tensor
		if err := json.Unmarshal(raw, &t); err != nil {
			return unknown("a tensor: %v", err)
		}
		if t.Offsets[0] < 0 || t.size() < 0 || t.Offsets[1] > data {
			return unknown("a tensor is not within its file")
		}
		if sum += t.size(); sum > data {
			return unknown("tensors overlap")
		}
		if old, twice := s.bytes[name]; !twice || t.size() < old.size() {
			s.bytes[name] = t
		}
		if len(s.bytes) > maxTensors {
			return unknown("more than %d tensors", maxTensors)
		}
	}
	return nil
}

var layer = regexp.MustCompile(`\.layers\.([0-9]{1,9})\.`)

func (s *safetensors) sum(m *Model, tied bool) error {
	for name, t := range s.bytes {
		match := layer.FindStringSubmatch(name)
		if match != nil {
			if n, err := strconv.ParseInt(match[1], 10, 64); err != nil || n >= m.Layers {
				continue // an extra layer that predicts further tokens
			}
		}
		switch {
		case tied && name == "lm_head.weight":
		case strings.HasSuffix(name, ".inv_freq"), strings.HasSuffix(name, ".qzeros"), strings.HasSuffix(name,
			".g_idx"):
		case floats[t.Type] > 0:
			m.Floats += t.size() / floats[t.Type]
		default:
			m.Fixed += t.size()
		}
		if m.Fixed+4*m.Floats > maxWeights {
			return unknown("weights of more than %d bytes", maxWeights)
		}
	}
	if m.Fixed+m.Floats == 0 {
		return unknown("no weights")
	}
	return nil
}
