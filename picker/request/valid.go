package request

import "encoding/json"

// Check returns why a body is not one JSON value of up to maxNesting levels, or nil. A Scanner is
// lenient: it reads what it can of a broken body.
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

// JSON reports whether the kind's bodies are JSON with a known prompt.
func (k Kind) JSON() bool { return k != OtherKind && k != Rendered && !k.GRPC() }
