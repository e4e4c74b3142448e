package nameserver

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Server answers queries on a UDP port of 127.0.0.1. It is safe for concurrent use.
type Server struct {
	conn net.PacketConn

	mu      sync.Mutex
	mode    mode
	ip      [4]byte
	asked   map[string]bool
	counted int // queries since the last call of Answer, Drop or Fail
}

type mode int

const (
	dropping mode = iota
	answering
	failing
)

// Start starts a server that drops every query.
func Start() (*Server, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("DNS server: %w", err)
	}
	s := &Server{conn: conn, asked: map[string]bool{}}
	go s.serve() // ends with Close
	return s, nil
}

// Address returns the server's IP:PORT.
func (s *Server) Address() string { return s.conn.LocalAddr().String() }

// Close ends the server.
func (s *Server) Close() error { return s.conn.Close() }

// Answer makes the server answer queries for A records with an IPv4 address.
func (s *Server) Answer(ip netip.Addr) { s.set(answering, ip.As4()) }

// Drop makes the server drop queries.
func (s *Server) Drop() { s.set(dropping, [4]byte{}) }

// Fail makes the server answer queries with SERVFAIL.
func (s *Server) Fail() { s.set(failing, [4]byte{}) }

func (s *Server) set(m mode, ip [4]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.ip, s.counted = m, ip, 0
}

// Asked reports whether a query for the name has arrived. The name ends with a dot.
func (s *Server) Asked(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// Queries returns the number of queries since the last call of Answer, Drop or Fail.
func (s *Server) Queries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted
}

func (s *Server) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(packet[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		s.answer(query, from)
	}
}

func (s *Server) answer(query dnsmessage.Message, to net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := query.Questions[0]
	s.asked[q.Name.String()] = true
	s.counted++
	if s.mode == dropping {
		return
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true},
		Questions: query.Questions}
	switch {
	case s.mode == failing:
		reply.RCode = dnsmessage.RCodeServerFailure
	case q.Type == dnsmessage.TypeA:
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0},
			Body:   &dnsmessage.AResource{A: s.ip},
		}}
	}
	if raw, err := reply.Pack(); err == nil {
		_, _ = s.conn.WriteTo(raw, to) // a lost answer has the effect of a dropped query
	}
}
