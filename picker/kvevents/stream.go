package kvevents

import (
	"encoding/binary"
	"errors"

	"github.com/penstock-project/penstock/picker/prefix"
)

var errMessage = errors.New("KV events: a message is not a topic, a sequence number of 8 bytes and a batch")

// stream applies the messages of one publisher in sequence. A publisher's first sequence number is
// 0 or 1.
type stream struct {
	tree    tree
	started bool
	// complete means that all messages were read since the publisher started, or last cleared its
	// cache.
	complete bool
	next     uint64
	replayed uint64 // first number after the last replay; smaller ones may arrive again
}

// parse splits a message into its three frames. Replays of older engines have no topic.
func parse(frames [][]byte) (topic []byte, seq uint64, batch []byte, err error) {
	if len(frames) != 3 || len(frames[1]) != 8 {
		return nil, 0, nil, errMessage
	}
	return frames[0], binary.BigEndian.Uint64(frames[1]), frames[2], nil
}

// missing reports whether messages before seq are missing, and the first missing number. If seq is
// below the expected number, the publisher has restarted with an empty cache.
func (s *stream) missing(seq uint64) (from uint64, missing bool) {
	if s.started && seq < s.next && seq >= s.replayed {
		s.forget()
	}
	if !s.started {
		return 0, seq > 1
	}
	return s.next, seq > s.next
}

func (s *stream) message(seq uint64, batch []byte) error {
	if s.started && seq < s.next && seq < s.replayed {
		return nil // the replay has already delivered this message
	}
	if s.started && seq != s.next {
		s.forget()
	}
	if !s.started {
		s.started, s.complete = true, seq <= 1
	}
	s.next = seq + 1
	if err := decode(batch, func(e *event) {
		if s.tree.apply(e) {
			s.complete = true
		}
	}); err != nil {
		s.forget()
		return err
	}
	known := prefix.Partly
	if s.complete {
		known = prefix.Reported
	}
	s.tree.server.SetKnowledge(known)
	return nil
}

func (s *stream) forget() {
	s.tree.server.SetKnowledge(prefix.Guessed)
	s.tree.clear()
	s.started, s.complete, s.next, s.replayed = false, false, 0, 0
}
