package scoring

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

const (
	fieldPool       = 1 // fields of ScoreRequest
	fieldFacts      = 2
	fieldCandidates = 3

	fieldModel     = 1 // fields of Facts
	fieldTokens    = 2
	fieldMaxTokens = 3
	fieldStream    = 4
	fieldSession   = 5

	fieldAddress  = 1 // fields of Candidate
	fieldPod      = 2
	fieldFresh    = 3
	fieldQueue    = 4
	fieldRunning  = 5
	fieldKVCache  = 6
	fieldInFlight = 7
	fieldUnread   = 8
	fieldCached   = 9

	fieldScores = 1 // field of ScoreResponse
)

// Question is an encoded ScoreRequest.
type Question struct {
	message    []byte
	candidates int
}

// Ask encodes a ScoreRequest.
func Ask(pool string, r *schedule.Request, candidates []schedule.Candidate,
	state func(*endpoint.Endpoint) *endpoint.State) *Question {
	q := &Question{candidates: len(candidates)}
	if q.candidates > maxCandidates {
		return q
	}
	var facts []byte
	facts = text(facts, fieldModel, r.Model)
	facts = number(facts, fieldTokens, uint64(max(r.Tokens, 0)))
	facts = number(facts, fieldMaxTokens, uint64(max(r.MaxTokens, 0)))
	facts = number(facts, fieldStream, protowire.EncodeBool(r.Stream))
	facts = number(facts, fieldSession, r.Session.ID)
	b := make([]byte, 0, 64+len(facts)+len(candidates)*96)
	b = text(b, fieldPool, pool)
	b = message(b, fieldFacts, facts)
	var one []byte
	for i := range candidates {
		c := &candidates[i]
		s := state(c.Endpoint)
		one = text(one[:0], fieldAddress, c.Endpoint.Text)
		one = text(one, fieldPod, c.Endpoint.Pod)
		one = number(one, fieldFresh, protowire.EncodeBool(s.Fresh))
		one = double(one, fieldQueue, s.Queue)
		one = double(one, fieldRunning, s.Running)
		one = double(one, fieldKVCache, s.KV)
		one = number(one, fieldInFlight, uint64(max(s.InFlight, 0)))
		one = number(one, fieldUnread, uint64(max(s.Unread, 0)))
		one = number(one, fieldCached, uint64(c.Cached))
		b = message(b, fieldCandidates, one)
	}
	q.message = b
	return q
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func double(b []byte, field protowire.Number, v float64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

type scores []float64

var errScores = errors.New("more scores than candidates may be asked about")

// unmarshal decodes a ScoreResponse. It clamps scores to the range from 0 to 1; NaN becomes 0.
func (s *scores) unmarshal(b []byte) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("ScoreResponse: %w", protowire.ParseError(n))
		}
		b = b[n:]
		values := b
		switch {
		case field == fieldScores && kind == protowire.BytesType:
			if values, n = protowire.ConsumeBytes(b); n >= 0 && len(values)%8 != 0 {
				return errors.New("ScoreResponse: packed scores of a wrong length")
			}
		case field == fieldScores && kind == protowire.Fixed64Type:
			if _, n = protowire.ConsumeFixed64(b); n >= 0 {
				values = b[:n]
			}
		default:
			if n = protowire.ConsumeFieldValue(field, kind, b); n >= 0 {
				values = nil
			}
		}
		if n < 0 {
			return fmt.Errorf("ScoreResponse: %w", protowire.ParseError(n))
		}
		for ; len(values) > 0; values = values[8:] {
			if len(*s) == maxCandidates {
				return errScores
			}
			bits, _ := protowire.ConsumeFixed64(values)
			v := math.Float64frombits(bits)
			if math.IsNaN(v) {
				v = 0
			}
			*s = append(*s, min(max(v, 0), 1))
		}
		b = b[n:]
	}
	return nil
}

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*Question).message)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	return v.(*scores).unmarshal(data.Materialize())
}
