package request

// Model servers decode bodies with Python's json.loads, which detects the encoding by the first
// bytes: UTF-8 (perhaps with a byte order mark), UTF-16 or UTF-32. Scanner reads only UTF-8.

const mark = "\xef\xbb\xbf"

type lead struct {
	bytes [5]byte
	n     int
}

func (l *lead) write(chunk []byte) {
	if l.n < len(l.bytes) {
		l.n += copy(l.bytes[l.n:], chunk)
	}
}

// NotUTF8 reports whether a body is JSON in UTF-16 or UTF-32, in which Scanner finds no members.
func (s *Scanner) NotUTF8() bool { return s.lead.notUTF8() }

func (l *lead) notUTF8() bool {
	b := l.bytes // zero beyond the end of a short body
	switch {
	case l.n < 2:
		return false
	case b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff: // byte order mark
		return true
	case begins(b[0]) && b[1] == 0, b[0] == 0 && begins(b[1]): // UTF-16, or UTF-32 with the low byte first
		return true
	case l.n < 4 || b[0] != 0 || b[1] != 0:
		return false
	}
	return b[2] == 0xfe && b[3] == 0xff || b[2] == 0 && begins(b[3]) && b[4] == 0
}

func begins(c byte) bool { return c == '{' || c == ' ' || c == '\t' || c == '\r' || c == '\n' }
