package store

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// packing is a compact form of objects, for kinds with very many objects: an APIKey takes 900 bytes
// as a Go value, and 80 packed.
type packing[T Object] struct {
	pack   func(T) any
	unpack func(any) T
}

// packedKey is a packed APIKey. It has, in this order: a byte that is 1 if the TypeMeta is the
// kind's own; the namespace; the name; the hashes; and, if other fields are set, a keyRest in JSON.
type packedKey string

type keyRest struct {
	Type *metav1.TypeMeta     `json:"type,omitempty"`
	Meta *metav1.ObjectMeta   `json:"meta,omitempty"`
	Spec *v1alpha1.APIKeySpec `json:"spec,omitempty"`
}

var keyType = metav1.TypeMeta{APIVersion: v1alpha1.Group + "/" + v1alpha1.Version, Kind: "APIKey"}

// packKeys packs APIKeys, unless the packed form would lose information, such as fractions of a
// second.
var packKeys = &packing[*v1alpha1.APIKey]{
	pack: func(k *v1alpha1.APIKey) any {
		packed, err := packKey(k)
		if err != nil {
			return k
		}
		again, err := unpackKey(packed)
		if err != nil || !reflect.DeepEqual(again, k) {
			return k
		}
		return packed
	},
	unpack: func(v any) *v1alpha1.APIKey {
		packed, ok := v.(packedKey)
		if !ok {
			return v.(*v1alpha1.APIKey)
		}
		k, _ := unpackKey(packed) // cannot fail: pack has unpacked it
		return k
	},
}

func packKey(k *v1alpha1.APIKey) (packedKey, error) {
	meta, spec, rest := k.ObjectMeta, k.Spec, keyRest{}
	own := byte(1)
	if k.TypeMeta != keyType {
		own, rest.Type = 0, &k.TypeMeta
	}
	out := []byte{own}
	for _, text := range []string{meta.Namespace, meta.Name} {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	hashes := make([]byte, 0, 64)
	for _, text := range spec.Hashes {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != 32 || hex.EncodeToString(raw) != text {
			hashes = nil
			break
		}
		hashes = append(hashes, raw...)
	}
	if len(hashes) > 0 {
		spec.Hashes = nil
	}
	out = append(binary.AppendUvarint(out, uint64(len(hashes))), hashes...)
	meta.Namespace, meta.Name = "", ""
	if !reflect.ValueOf(meta).IsZero() {
		rest.Meta = &meta
	}
	if !reflect.ValueOf(spec).IsZero() {
		rest.Spec = &spec
	}
	if rest == (keyRest{}) {
		return packedKey(out), nil
	}
	text, err := json.Marshal(rest)
	return packedKey(append(out, text...)), err
}

func unpackKey(packed packedKey) (*v1alpha1.APIKey, error) {
	rest, text := keyRest{}, string(packed[1:])
	next := func() (field string) {
		n, used := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
		field, text = text[used:used+int(n)], text[used+int(n):]
		return field
	}
	k := &v1alpha1.APIKey{}
	namespace, name, hashes := next(), next(), next()
	if text != "" {
		if err := json.Unmarshal([]byte(text), &rest); err != nil {
			return nil, err
		}
	}
	if k.TypeMeta = keyType; rest.Type != nil {
		k.TypeMeta = *rest.Type
	} else if packed[0] == 0 {
		k.TypeMeta = metav1.TypeMeta{}
	}
	if rest.Meta != nil {
		k.ObjectMeta = *rest.Meta
	}
	if rest.Spec != nil {
		k.Spec = *rest.Spec
	}
	k.Namespace, k.Name = namespace, name
	for ; hashes != ""; hashes = hashes[32:] {
		k.Spec.Hashes = append(k.Spec.Hashes, hex.EncodeToString([]byte(hashes[:32])))
	}
	return k, nil
}
