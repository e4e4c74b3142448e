package extproc

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Subset returns the entries ("ip:port" or "ip") of the subset hint in a metadata namespace. set
// reports whether there is a hint. An empty hint allows no endpoint.
func (m *Message) Subset(namespace string) (entries []string, set bool) {
	value, ok := m.metadata(namespace, keySubset)
	if !ok {
		return nil, false
	}
	add := func(text []byte) {
		for part := range strings.SplitSeq(string(text), ",") {
			if part = strings.TrimSpace(part); part != "" {
				entries = append(entries, part)
			}
		}
	}
	kind, payload := structValue(value)
	switch kind {
	case valueString:
		add(payload)
	case valueList:
		_ = fields(payload, func(num protowire.Number, v []byte, _ uint64, typ protowire.Type) error {
			if num == 1 && typ == protowire.BytesType {
				if kind, text := structValue(v); kind == valueString {
					add(text)
				}
			}
			return nil
		})
	}
	return entries, true
}

// Served returns the serving endpoint ("ip:port"), or nil. It also reads the protocol's namespace,
// which a data plane may use even if its picks have another one.
func (m *Message) Served(namespace string) []byte {
	value, ok := m.metadata(namespace, keyServed)
	if !ok && namespace != namespaceLB {
		value, ok = m.metadata(namespaceLB, keyServed)
	}
	if !ok {
		return nil
	}
	if kind, text := structValue(value); kind == valueString {
		return text
	}
	return nil
}

func (m *Message) metadata(namespace, key string) ([]byte, bool) {
	var found []byte
	var set bool
	for _, block := range m.context {
		eachEntry(block, namespace, func(object []byte) {
			// Of two entries with one key, the later one counts.
			found, set = nil, false
			eachEntry(object, key, func(value []byte) { found, set = value, true })
		})
	}
	return found, set
}

func eachEntry(b []byte, key string, f func(value []byte)) {
	_ = fields(b, func(num protowire.Number, entry []byte, _ uint64, typ protowire.Type) error {
		if num != 1 || typ != protowire.BytesType {
			return nil
		}
		var k, v []byte
		_ = fields(entry, func(num protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
			if typ == protowire.BytesType {
				switch num {
				case 1:
					k = val
				case 2:
					if v == nil {
						v = val
					} else { // repeated message fields merge by concatenation
						v = append(v[:len(v):len(v)], val...)
					}
				}
			}
			return nil
		})
		if string(k) == key {
			f(v)
		}
		return nil
	})
}

const (
	valueString = 3
	valueList   = 6
)

// valueTypes has the wire types of Value's members. A member with another wire type counts as an
// unknown field.
var valueTypes = [...]protowire.Type{1: protowire.VarintType, 2: protowire.Fixed64Type,
	valueString: protowire.BytesType,
	4:           protowire.VarintType, 5: protowire.BytesType, valueList: protowire.BytesType}

func structValue(b []byte) (kind protowire.Number, payload []byte) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return kind, payload
		}
		field := b[:n]
		b = b[n:]
		if num >= protowire.Number(len(valueTypes)) || typ != valueTypes[num] {
			continue
		}
		if num != kind {
			kind, payload = num, nil
		}
		if typ != protowire.BytesType {
			continue
		}
		_, _, head := protowire.ConsumeTag(field)
		v, _ := protowire.ConsumeBytes(field[head:])
		if num == valueList {
			v = append(payload[:len(payload):len(payload)], v...)
		}
		payload = v
	}
	return kind, payload
}
