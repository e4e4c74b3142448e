package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/recording"
	"github.com/penstock-project/penstock/picker/schedule"
)

const (
	// A hash in a trace covers recordedBlock tokens, as in Mooncake's traces.
	recordedBlock          = 512
	tokenBytes, eventBytes = 4, 200
	maxRecordedTokens      = 1 << 20
	maxRecordedName        = 256 // in bytes
)

func (k *pick) line() *recording.Line {
	p, r := k.picker, k.request
	if p.config.Recording == nil || k.pool.Relay != nil || k.tokens <= 0 || r.Facts.Size == 0 {
		return nil
	}
	tokens := min(k.tokens, maxRecordedTokens)
	l := &recording.Line{
		Timestamp: max(k.started.Sub(p.config.Recording.Began()).Milliseconds(), 0), InputLength: tokens,
		HashIDs: hashIDs(r.Facts.Chain, tokens, p.config.Recording.Key()),
		Model:   k.model[:min(len(k.model), maxRecordedName)], Pool: k.pool.Name, Stream: r.Facts.Stream,
		Request: text(r.Headers.Header("x-request-id")),
	}
	l.OutputLength = r.Facts.MaxTokens // replaced when the request's end is known
	if k.compared > 0 {
		l.Cached = int(k.choices[0].cached)
	}
	return l
}

func text(value []byte) string { return string(value[:min(len(value), maxNoted)]) }

func (p *Picker) recorded(tag endpoint.Tag, e accesslog.Entry, now time.Time) {
	l := tag.Line
	if l == nil {
		return
	}
	done := *l
	done.Server, done.Status, done.Bytes = e.Served, e.Status, e.Bytes
	done.Headers = float64(e.Headers.Microseconds()) / 1000
	if l.Stream && !e.Whole && !tag.Early {
		done.TTFT = float64(e.FirstByte.Microseconds()) / 1000
	}
	done.Took = float64(e.Took.Microseconds()) / 1000
	if e.Took == 0 {
		done.Took = float64(max(now.Sub(p.config.Recording.Began()).Milliseconds()-l.Timestamp, 0))
	}
	per := int64(tokenBytes)
	if l.Stream {
		per = eventBytes
	}
	done.OutputLength = int(min(max(e.Bytes/per, 1), maxRecordedTokens))
	if l.OutputLength > 0 {
		done.OutputLength = min(done.OutputLength, l.OutputLength)
	}
	p.config.Recording.Add(done)
}

// hashIDs returns an ID for each recordedBlock tokens of a prompt. Common beginnings of prompts
// have the same IDs. Tokens beyond the chain's blocks get unique IDs.
func hashIDs(c prefix.Chain, tokens int, key uint64) []int64 {
	ids := make([]int64, (tokens+recordedBlock-1)/recordedBlock)
	block, seed := 0, key
	for i := range ids {
		end := (i + 1) * recordedBlock
		for block < len(c) && prefix.End(block) <= end {
			block++
		}
		switch {
		// The chain does not cover this block.
		case end > tokens, prefix.End(block-1) <= end-recordedBlock && block == len(c):
			seed = schedule.Mix(seed ^ uint64(time.Now().UnixNano()))
			ids[i] = number(schedule.Mix(key ^ seed))
		default:
			ids[i] = number(schedule.Mix(key ^ c[block-1]))
		}
	}
	return ids
}

func number(hash uint64) int64 { return int64(hash >> 11) }
