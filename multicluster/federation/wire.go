package federation

import "github.com/fxamacker/cbor/v2"

// The wire form is CBOR (RFC 8949) with the names of the JSON form. Members of one set may run
// different releases, so a decoder ignores names that it does not have. Everything else is strict.
var (
	encoding = mode(cbor.EncOptions{Sort: cbor.SortBytewiseLexical}.EncMode())
	decoding = mode(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		NaN:               cbor.NaNDecodeForbidden,
		Inf:               cbor.InfDecodeForbidden,
		MaxNestedLevels:   maxDepth,
		MaxArrayElements:  maxEndpoints,
		MaxMapPairs:       maxSenders,
		BinaryUnmarshaler: cbor.BinaryUnmarshalerNone,
	}.DecMode())
)

const (
	// maxDepth bounds how deep a message is nested: seven levels are used.
	maxDepth = 16
	// elementSize is how many bytes an element of a list counts beside its own: the smallest takes
	// one on the wire.
	elementSize = 32
)

// mode is a mode of the library, whose options are constants.
func mode[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}

// WireTypes are the types of what members send to each other, by name, with zero values. Tests
// generate from their fields what a hostile member may send.
func WireTypes() map[string]any {
	return map[string]any{"state": cluster{}, "record": record{}, "part": part{}, "placed": placed{}, "load": load{}}
}
