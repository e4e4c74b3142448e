package server

// Connected is how many streams there are of a gateway; of all, if it is "".
func (s *Server) Connected(gateway string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for name, g := range s.gateways {
		if gateway == "" || gateway == name {
			n += len(g.streams)
		}
	}
	return n
}

// count tells how many streams a gateway has now. Called with mu held, so that the last word is the right one.
func (s *Server) count(name string, g *gateway) {
	if s.config.Count != nil {
		s.config.Count(name, len(g.streams))
	}
}
