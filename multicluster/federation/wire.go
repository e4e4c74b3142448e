package federation

import "github.com/fxamacker/cbor/v2"

// Messages are encoded as CBOR (RFC 8949). Decoding ignores unknown fields, because members may run
// different releases.
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
	// Valid messages nest at most seven levels deep.
	maxDepth = 16
	// elementSize is the assumed memory of a decoded list element, in bytes; on the wire it may
	// take one byte.
	elementSize = 32
)

func mode[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}

// WireTypes returns a zero value of each message type, by name. Tests build hostile messages from
// them.
func WireTypes() map[string]any {
	return map[string]any{"state": cluster{}, "record": record{}, "part": part{}, "placed": placed{}, "load": load{}}
}
