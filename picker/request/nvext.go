package request

import "google.golang.org/grpc/mem"

// The top-level member nvext is for Dynamo's frontend. A picker sets workers and token IDs in
// nvext, and the client its other members.

func nvextUse(key []byte) use {
	switch string(key) {
	case "backend_instance_id", "decode_worker_id", "prefill_worker_id", "dp_rank", "prefill_dp_rank":
		return forWorker
	case "token_data":
		return forTokens
	}
	return unused
}

type nvext struct {
	removed spans
	tokens  bool // removed includes a token_data
	seen    bool
	members int  // offset of the first member of the last nvext object; 0 for none
	body    int  // offset of the first member of the body; 0 if the body is not an object
	enters  *int // if not nil, receives the offset after the next byte
}

func (n *nvext) reset() { *n = nvext{removed: spans{list: n.removed.list[:0]}} }

var null = []byte("null")

// RemoveWorkers makes Splices replace the workers and token IDs in nvext by null. It returns false
// if they are too many.
func (s *Scanner) RemoveWorkers() bool {
	s.bare = true
	return !s.nvext.removed.tooMany
}

func hasMember(body mem.BufferSlice, at int) bool {
	for _, b := range body {
		for _, c := range b.ReadOnlyData()[min(at, b.Len()):] {
			switch c {
			case ' ', '\t', '\r', '\n':
			default:
				return c == '"'
			}
		}
		at = max(at-b.Len(), 0)
	}
	return false
}
