package server

// Connected is how many streams there are, of all gateways.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, g := range s.gateways {
		n += len(g.streams)
	}
	return n
}
