package set

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// LeadingChanged must be called when the result of Config.Leading may have changed.
func (s *Set) LeadingChanged() { signal(s.signals.leading) }

func (s *Set) leads() bool { return s.cfg.Leading == nil || s.cfg.Leading() }

const retry = 5 * time.Second

func (s *Set) lead(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.signals.decided:
	}
	var began time.Time
	for {
		var again <-chan time.Time
		if s.leads() {
			if began.IsZero() {
				began = s.now()
			}
			err := s.publish(ctx, began)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				s.note(err)
				again = time.After(retry)
			}
		}
		if !s.leads() {
			began = time.Time{}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.signals.leading:
		case <-again:
		}
	}
}

func (s *Set) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	changed := s.link.unserved != text
	s.link.unserved = text
	s.mu.Unlock()
	if changed {
		if err != nil {
			s.cfg.Log.Error("this cluster does not publish to its cluster set; trying again", "error", err)
		}
		s.report()
	}
}

func (s *Set) publish(ctx context.Context, began time.Time) error {
	uid, epoch, err := s.cfg.Identity(ctx)
	if err != nil {
		return fmt.Errorf("the identity of this cluster: %w", err)
	}
	var l net.Listener
	if s.cfg.Listen != nil {
		if l, err = s.cfg.Listen(ctx); err != nil {
			return fmt.Errorf("serve members: %w", err)
		}
	}
	s.link.federation.Publish(uid, epoch, began)
	s.note(nil)
	signal(s.signals.led)
	ended := make(chan error, 1)
	if l != nil {
		server := s.cfg.Server(s.link.federation)
		s.link.federation.Register(server)
		defer server.Stop()
		go func() { ended <- server.Serve(l) }() // ends when the server stops
	}
	for s.leads() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.signals.leading:
		case err := <-ended:
			return errors.Join(fmt.Errorf("serve members on %s", l.Addr()), err)
		}
	}
	return nil
}
