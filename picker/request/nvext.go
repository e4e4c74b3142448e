package request

import "google.golang.org/grpc/mem"

// Dynamo's frontend reads a request's member nvext. Its members name the workers that serve the
// request, and the prompt's token IDs: a picker decides about these. All others are the client's.

// nvextUse returns what a member of nvext is read for.
func nvextUse(key []byte) use {
	switch string(key) {
	case "backend_instance_id", "decode_worker_id", "prefill_worker_id", "dp_rank", "prefill_dp_rank":
		return forWorker
	case "token_data":
		return forTokens
	}
	return unused
}

// nvext is where a body has its members.
type nvext struct {
	removed spans // values that a picker removes
	tokens  bool  // one of them is token_data
	seen    bool  // there is a member nvext
	members int   // the offset of the first member of the last nvext that is an object; 0 without
	body    int   // the same of the body; 0 for one that is no object
	enters  *int  // is set at the byte that is read; nil for none
}

func (n *nvext) reset() { *n = nvext{removed: spans{list: n.removed.list[:0]}} }

var null = []byte("null")

// RemoveWorkers has Splices replace the workers and token IDs that the body names in nvext by null.
// It returns false if there are too many.
func (s *Scanner) RemoveWorkers() bool {
	s.bare = true
	return !s.nvext.removed.tooMany
}

// hasMember reports whether a member of an object follows an offset.
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
