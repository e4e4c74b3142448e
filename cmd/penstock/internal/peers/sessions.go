package peers

import (
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
)

const (
	sessionsTTL = time.Second
	// Sessions beyond maxSessions are not published, so other processes may pick other endpoints.
	maxSessions = 1 << 14
)

// SessionKeeper stores the endpoints of pools' sessions. *picker.Picker implements it.
type SessionKeeper interface {
	LearnSession(picker.Session)
	Sessions(f func(picker.Session) bool)
}

// Sessions publishes the endpoints of clients' sessions, so that all processes pick the same
// endpoint.
type Sessions struct{ *lists[picker.Session] }

// NewSessions makes a Sessions. keeper is called once the channel runs.
func NewSessions(c *channel.Channel, keeper func() SessionKeeper) *Sessions {
	topic, limits := c.Topic("sessions"), batchLimits{delay: batchDelay, ttl: sessionsTTL}
	s := &Sessions{newLists(topic, limits, maxSessions, func(list []picker.Session) error {
		for _, session := range list[:min(len(list), maxSessions)] {
			keeper().LearnSession(session)
		}
		return nil
	})}
	topic.Snapshot(func() []channel.Item {
		var list []picker.Session
		keeper().Sessions(func(session picker.Session) bool {
			list = append(list, session)
			return len(list) < maxSessions
		})
		if len(list) == 0 {
			return nil
		}
		return []channel.Item{{Key: "snapshot", Value: toJSON(list)}}
	})
	return s
}

// Add publishes a session in the next batch.
func (s *Sessions) Add(session picker.Session) {
	if s.topic.Subscribed() {
		s.add(session)
	}
}
