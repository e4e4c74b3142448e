package request

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	fieldTokenized = 2 // of GenerateRequest and EmbedRequest
	fieldText      = 3 // of GenerateRequest, like the next two
	fieldSampling  = 4
	fieldStream    = 5
	fieldIDs       = 2 // of TokenizedInput
	fieldMaxTokens = 8 // of SamplingParams
)

func (s *Scanner) readMessage() {
	s.rest.Reset()
	s.ids.Reset()
	s.stream, s.limitTokens = false, 0
	if len(s.message) < 5 || s.message[0] != 0 {
		return
	}
	p := s.message[5:]
	size := binary.BigEndian.Uint32(s.message[1:])
	if uint64(size) > uint64(len(p)) {
		return
	}
	fields(p[:size], func(num protowire.Number, value []byte, number uint64) {
		switch {
		case num == fieldTokenized && value != nil:
			s.rest.Reset() // in a oneof, the last field counts
			s.ids.Reset()
			s.readTokens(value)
		case s.kind == GRPCEmbed:
		case num == fieldText && value != nil:
			s.rest.Reset()
			s.ids.Reset()
			s.rest.Write(value)
		case num == fieldSampling && value != nil:
			fields(value, func(num protowire.Number, value []byte, number uint64) {
				if num == fieldMaxTokens && value == nil {
					s.limitTokens = int(min(number, maxInt))
				}
			})
		case num == fieldStream && value == nil:
			s.stream = number != 0
		}
	})
}

func (s *Scanner) readTokens(p []byte) {
	fields(p, func(num protowire.Number, value []byte, number uint64) {
		switch {
		case num != fieldIDs:
		case value == nil:
			s.writeToken(&s.rest, uint32(number))
		default:
			for len(value) > 0 {
				id, n := protowire.ConsumeVarint(value)
				if n < 0 {
					return
				}
				s.writeToken(&s.rest, uint32(id))
				value = value[n:]
			}
		}
	})
}

// fields calls f for each field of a message, up to the first invalid one. value is nil for a
// varint, which is in number.
func fields(p []byte, f func(num protowire.Number, value []byte, number uint64)) {
	for len(p) > 0 {
		num, typ, n := protowire.ConsumeTag(p)
		if n < 0 {
			return
		}
		p = p[n:]
		switch typ {
		case protowire.VarintType:
			var number uint64
			if number, n = protowire.ConsumeVarint(p); n >= 0 {
				f(num, nil, number)
			}
		case protowire.BytesType:
			var value []byte
			if value, n = protowire.ConsumeBytes(p); n >= 0 {
				f(num, value[:len(value):len(value)], 0)
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, p)
		}
		if n < 0 {
			return
		}
		p = p[n:]
	}
}
