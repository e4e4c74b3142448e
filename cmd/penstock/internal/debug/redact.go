package debug

import (
	"fmt"
	"strings"

	"github.com/cncf/xds/go/udpa/annotations"
	corev1 "k8s.io/api/core/v1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/discovery/store"
)

// redactedObject returns obj, or for a Secret a copy in which only certificates are readable.
func redactedObject(obj store.Object) store.Object {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return obj
	}
	out := secret.DeepCopy()
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation) // kubectl apply copies the whole object into it
	for key, value := range out.Data {
		if !publicKey(key) {
			out.Data[key] = fmt.Appendf(nil, "redacted: %d bytes", len(value))
		}
	}
	for key, value := range out.StringData {
		if !publicKey(key) {
			out.StringData[key] = fmt.Sprintf("redacted: %d bytes", len(value))
		}
	}
	return out
}

// publicKey names the entries of a Secret that hold certificates only.
func publicKey(key string) bool { return key == corev1.TLSCertKey || strings.EqualFold(key, "ca.crt") }

// redact removes every field that Envoy's API marks as sensitive (udpa.annotations.sensitive), at any depth, and inside
// every Any whose type is linked into this program. An Any of an unknown type loses its content.
func redact(m protoreflect.Message) error {
	var failed error
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if isSensitive(field) {
			m.Clear(field)
			return true
		}
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					failed = redactMessage(v.Message())
					return failed == nil
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				if failed = redactMessage(value.List().Get(i).Message()); failed != nil {
					break
				}
			}
		default:
			failed = redactMessage(value.Message())
		}
		return failed == nil
	})
	return failed
}

func redactMessage(m protoreflect.Message) error {
	packed, ok := m.Interface().(*anypb.Any)
	if !ok {
		return redact(m)
	}
	inner, err := packed.UnmarshalNew()
	if err != nil {
		packed.Value = nil
		return nil
	}
	if err := redact(inner.ProtoReflect()); err != nil {
		return err
	}
	packed.Value, err = proto.MarshalOptions{Deterministic: true}.Marshal(inner)
	return err
}

func isSensitive(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	return ok && proto.HasExtension(options, annotations.E_Sensitive) && proto.GetExtension(options, annotations.E_Sensitive).(bool)
}
