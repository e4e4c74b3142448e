package federation

import "github.com/fxamacker/cbor/v2"

// The wire form is CBOR (RFC 8949). Unknown names are ignored, because members may run different
// releases. Everything else is strict.
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
	// maxDepth bounds the nesting of a message: seven levels are used.
	maxDepth = 16
	// elementSize is counted for a list element in addition to its bytes on the wire, of which the
	// smallest has one.
	elementSize = 32
)

// mode panics on an error, because the options are constants.
func mode[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}

// WireTypes returns the types of members' messages, by name, as zero values. Tests derive hostile
// messages from their fields.
func WireTypes() map[string]any {
	return map[string]any{"state": cluster{}, "record": record{}, "part": part{}, "placed": placed{}, "load": load{}}
}
