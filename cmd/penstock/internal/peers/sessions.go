package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
)

const (
	// sessionsTTL is how long a batch of sessions stays published. A process that was disconnected
	// receives a snapshot.
	sessionsTTL = time.Second
	// maxSessions bounds the sessions of a batch and, by last use, of a snapshot. Further sessions
	// begin again where another process picks for them.
	maxSessions = 1 << 14
)

// SessionKeeper stores the endpoints of pools' sessions. *picker.Picker implements it.
type SessionKeeper interface {
	LearnSession(picker.Session)
	Sessions(f func(picker.Session) bool)
}

// Sessions publishes the endpoints of sessions that clients name by an ID, so that they stay there
// whichever process picks.
type Sessions struct {
	topic   *channel.Topic
	batches *batches

	mu      sync.Mutex
	waiting []picker.Session
}

// NewSessions makes a Sessions. keeper is called once the channel runs.
func NewSessions(c *channel.Channel, keeper func() SessionKeeper) *Sessions {
	s := &Sessions{topic: c.Topic("sessions")}
	s.batches = newBatches(s.topic, batchLimits{delay: batchDelay, ttl: sessionsTTL}, s.take)
	s.topic.Subscribe(func(_ context.Context, u channel.Update) error {
		var errs []error
		for _, it := range u.Items {
			var list []picker.Session
			if err := json.Unmarshal(it.Value, &list); err != nil {
				errs = append(errs, fmt.Errorf("batch %s: %w", it.Key, err))
				continue
			}
			for _, session := range list[:min(len(list), maxSessions)] {
				keeper().LearnSession(session)
			}
		}
		return errors.Join(errs...)
	})
	s.topic.Snapshot(func() []channel.Item {
		var list []picker.Session
		keeper().Sessions(func(session picker.Session) bool {
			list = append(list, session)
			return len(list) < maxSessions
		})
		if len(list) == 0 {
			return nil
		}
		return []channel.Item{{Key: "snapshot", Value: encodeSessions(list)}}
	})
	return s
}

// Add publishes a session soon. See picker.Config.Session.
func (s *Sessions) Add(session picker.Session) {
	if !s.topic.Subscribed() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= maxSessions {
		return
	}
	if s.waiting = append(s.waiting, session); len(s.waiting) == 1 {
		s.batches.notify()
	}
}

func (s *Sessions) take() []byte {
	s.mu.Lock()
	list := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	return encodeSessions(list)
}

func encodeSessions(list []picker.Session) []byte {
	value, err := json.Marshal(list)
	if err != nil { // plain values
		return nil
	}
	return value
}

// Run publishes until ctx ends.
func (s *Sessions) Run(ctx context.Context) error { return s.batches.Run(ctx) }
