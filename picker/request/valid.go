package request

import "encoding/json"

// Check returns why a body is not one JSON value of up to maxNesting levels, or nil.
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

// JSON reports whether bodies of this kind are JSON with a prompt that Scanner finds.
func (k Kind) JSON() bool { return k != OtherKind && k != Rendered && !k.GRPC() }
