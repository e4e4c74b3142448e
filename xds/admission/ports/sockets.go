package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// Sockets are listeners that this process's next program inherits (after exec), so that clients
// only wait. nil inherits nothing.
type Sockets struct {
	mu        sync.Mutex
	open      map[string][]net.Listener
	inherited map[string][]int
}

// NewSockets takes the result of Keep in the earlier program, or nil.
func NewSockets(inherited map[string][]int) *Sockets {
	for _, list := range inherited {
		for _, fd := range list {
			syscall.CloseOnExec(fd)
		}
	}
	return &Sockets{open: map[string][]net.Listener{}, inherited: inherited}
}

// Listen is Port.Listen, but first takes an inherited listener of the same port, network and
// address. Listeners at port 0 are taken in their order of opening.
func (s *Sockets) Listen(ctx context.Context, p Port, network, address string) (net.Listener, error) {
	if s == nil {
		return p.Listen(ctx, network, address)
	}
	key := key(p, network, address)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.take(key)
	if l == nil && err == nil {
		l, err = p.Listen(ctx, network, address)
	} else if err == nil {
		l = &listener{l, p}
	}
	if err == nil {
		s.open[key] = append(s.open[key], l)
	}
	return l, err
}

// Has reports whether Listen would take an inherited listener.
func (s *Sockets) Has(p Port, network, address string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inherited[key(p, network, address)]) > 0
}

func key(p Port, network, address string) string { return p.Name + " " + network + " " + address }

// The caller holds s.mu.
func (s *Sockets) take(key string) (net.Listener, error) {
	list := s.inherited[key]
	if len(list) == 0 {
		return nil, nil
	}
	s.inherited[key] = list[1:]
	f := os.NewFile(uintptr(list[0]), key)
	defer func() { _ = f.Close() }()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the inherited listener %s: %w", key, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(true)
	}
	return l, nil
}

// Drop closes the remaining inherited listeners.
func (s *Sockets) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.inherited {
		for _, fd := range list {
			_ = syscall.Close(fd)
		}
	}
	s.inherited = nil
}

// Keep duplicates the file descriptors of all open listeners, for NewSockets.
func (s *Sockets) Keep() (map[string][]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[string][]int{}
	for key, list := range s.open {
		for _, l := range list {
			inner := l.(*listener).Listener
			if u, ok := inner.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false)
			}
			fd, err := Duplicate(inner.(syscall.Conn))
			if errors.Is(err, net.ErrClosed) {
				continue
			}
			if err != nil {
				return kept, fmt.Errorf("the listener %s: %w", key, err)
			}
			kept[key] = append(kept[key], fd)
		}
	}
	return kept, nil
}

// Duplicate returns another file descriptor of c, which children do not inherit.
func Duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(given uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, err = syscall.Dup(int(given)); err == nil {
			syscall.CloseOnExec(fd)
		}
	})
	return fd, errors.Join(controlled, err)
}
