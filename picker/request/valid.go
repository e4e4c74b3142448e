package request

import "encoding/json"

// Check returns why a body cannot be read as one JSON value that nests up to maxNesting levels; nil
// if it can. A Scanner is lenient: it finds what it can in a broken body.
func Check(body []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return errBroken
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if !json.Valid(body) {
		return errBroken
	}
	return nil
}

// JSON reports whether bodies of the kind are JSON whose prompt is known.
func (k Kind) JSON() bool { return k != OtherKind && k != Rendered && !k.GRPC() }
