package request

import "github.com/penstock-project/penstock/picker/prefix"

func (s *Scanner) scalar(p []byte) int {
	for i, c := range p {
		if c >= '0' && c <= '9' {
			if s.number < 1<<40 {
				s.number = 10*s.number + uint64(c-'0')
			}
			continue
		}
		switch c {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			s.take(p[:i])
			s.endScalar()
			return i + s.tokens(p[i:])
		}
		s.digits = false
	}
	s.take(p)
	return len(p)
}

func (s *Scanner) endScalar() {
	s.inScalar = false
	switch s.use {
	case forStream:
		s.stream = s.first == 't'
	case forStore:
		s.unstored = s.first == 'f'
	case forRoute:
		s.route = s.first
	case forLimit:
		if s.digits {
			s.limitTokens = int(min(s.number, maxInt))
		}
	case asSeed, asImage:
		if s.first == 'n' { // null is no image, and no features
			s.use = unused
		}
	case forPrompt:
		if s.digits {
			s.writeToken(s.builder(), uint32(s.number))
		}
	}
	s.endValue()
}

func (s *Scanner) writeToken(to *prefix.Builder, id uint32) {
	to.WriteToken(id)
	s.ids.Add(id)
}

// tokens reads token IDs from the start of p, and returns the number of bytes read. It stops at
// another value, and before an ID that may continue in the next chunk.
func (s *Scanner) tokens(p []byte) (taken int) {
	if top := s.frame(); s.use != forPrompt || !top.array {
		return 0
	}
	to := s.builder()
	for i := 0; ; {
		for i < len(p) && (p[i] == ' ' || p[i] == '\n') {
			i++
		}
		if i == len(p) || p[i] != ',' {
			return taken
		}
		for i++; i < len(p) && (p[i] == ' ' || p[i] == '\n'); {
			i++
		}
		from, n := i, uint64(0)
		for ; i < len(p) && p[i]-'0' <= 9 && i-from < 10; i++ {
			n = 10*n + uint64(p[i]-'0')
		}
		if i == from || i == len(p) || p[i] != ',' && p[i] != ']' && p[i] != ' ' && p[i] != '\n' {
			return taken
		}
		s.writeToken(to, uint32(n))
		taken = i
	}
}
