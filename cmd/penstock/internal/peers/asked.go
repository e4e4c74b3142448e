package peers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
)

const (
	askTimeout = time.Second
	// maxAnswer bounds the answer to one question, in bytes. maxQuestions bounds the open questions
	// of all peers together.
	maxAnswer, maxQuestions = 256 << 10, 32
)

// Asked returns the picks of all processes. A question is a published item, and so are its answers.
type Asked struct {
	questions, answers *channel.Topic
	peers              *channel.Mirror[json.RawMessage]
	picks              func(picker.Picks) []*picker.Record

	mu       sync.Mutex
	open     map[string]bool
	answered chan struct{}
}

// NewAsked makes an Asked. picks returns this process's picks; it is called once the channel runs.
func NewAsked(c *channel.Channel, picks func(picker.Picks) []*picker.Record) *Asked {
	a := &Asked{questions: c.Topic("questions"), answers: c.Topic("answers"), picks: picks, open: map[string]bool{},
		answered: make(chan struct{})}
	channel.NewMirror(a.questions, channel.MirrorConfig[picker.Picks]{
		Decode:  fromJSON[picker.Picks],
		Changed: a.answer,
	})
	a.peers = channel.NewMirror(a.answers, channel.MirrorConfig[json.RawMessage]{
		Decode: func(value []byte) (json.RawMessage, error) {
			if len(value) > maxAnswer+2 || !json.Valid(value) {
				return nil, fmt.Errorf("an answer of %d bytes is invalid", len(value))
			}
			return value, nil
		},
		Changed: func([]channel.Change[json.RawMessage]) {
			a.mu.Lock()
			defer a.mu.Unlock()
			close(a.answered)
			a.answered = make(chan struct{})
		},
	})
	return a
}

func (a *Asked) answer(changes []channel.Change[picker.Picks]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		if c.Gone {
			delete(a.open, c.Key)
			a.answers.Retract(c.Key)
			continue
		}
		if len(a.open) >= maxQuestions || a.open[c.Key] {
			continue
		}
		a.open[c.Key] = true
		a.answers.Publish(channel.Item{Key: c.Key, Value: bounded(a.picks(c.Value))})
	}
}

func bounded(records []*picker.Record) []byte {
	out := []byte{'['}
	for _, r := range records {
		raw, err := json.Marshal(r)
		if err != nil || len(out)+1+len(raw) > maxAnswer {
			break
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, ']')
}

// Picks returns the selected picks of all processes, newest first, and how many peers gave no
// answer.
func (a *Asked) Picks(ctx context.Context, q picker.Picks) (records []*picker.Record, silent int) {
	records = a.picks(q)
	if a.questions.Subscribers() == 0 {
		return records, 0
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	key := rand.Text()
	a.questions.Publish(channel.Item{Key: key, Value: toJSON(q), TTL: askTimeout})
	defer a.questions.Retract(key)
	var answers map[string]json.RawMessage
	for {
		a.mu.Lock()
		changed := a.answered
		a.mu.Unlock()
		answers = a.peers.ByKey(key)
		if silent = max(a.questions.Subscribers()-len(answers), 0); silent == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-changed:
			continue
		}
		break
	}
	for _, raw := range answers {
		var theirs []*picker.Record
		if json.Unmarshal(raw, &theirs) != nil {
			silent++
			continue
		}
		records = append(records, slices.DeleteFunc(theirs, func(r *picker.Record) bool { return r == nil })...)
	}
	slices.SortStableFunc(records, func(x, y *picker.Record) int {
		if at := y.Time.Compare(x.Time); at != 0 {
			return at
		}
		return strings.Compare(x.Lease, y.Lease)
	})
	if q.Last > 0 && len(records) > q.Last {
		records = records[:q.Last]
	}
	return records, silent
}
