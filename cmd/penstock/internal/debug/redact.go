package debug

import (
	"fmt"
	"strings"

	"github.com/cncf/xds/go/udpa/annotations"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/discovery/credential"
)

const redactedText = "redacted"

// Redact removes credentials from a resource, at any depth: fields that Envoy's API marks as
// sensitive (udpa.annotations.sensitive), values of headers and query parameters that authenticate
// a client, and credentials in any text (credential.Text). An Any whose type is not linked into
// this program loses its content.
func Redact(m proto.Message) error { return redact(m.ProtoReflect()) }

func redact(m protoreflect.Message) error {
	switch named := m.Interface().(type) {
	case *anypb.Any:
		return redactAny(named)
	case *corev3.HeaderValue:
		if credential.Named(named.GetKey()) {
			named.Value, named.RawValue = redactedText, nil
		}
	case *corev3.KeyValuePair:
		if credential.Named(named.GetKey()) {
			named.Value = nil
		}
	case *routev3.HeaderMatcher:
		if _, present := named.GetHeaderMatchSpecifier().(*routev3.HeaderMatcher_PresentMatch); !present &&
			credential.Named(named.GetName()) {
			named.HeaderMatchSpecifier = nil
		}
	case *routev3.QueryParameterMatcher:
		matcher := named.GetQueryParameterMatchSpecifier()
		if _, present := matcher.(*routev3.QueryParameterMatcher_PresentMatch); !present &&
			credential.Named(named.GetName()) {
			named.QueryParameterMatchSpecifier = nil
		}
	}
	var failed error
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if isSensitive(field) {
			m.Clear(field)
			return true
		}
		failed = redactField(m, field, value)
		return failed == nil
	})
	return failed
}

func redactField(m protoreflect.Message, field protoreflect.FieldDescriptor, value protoreflect.Value) (err error) {
	switch {
	case field.IsMap():
		value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			if field.MapValue().Message() != nil {
				err = redact(v.Message())
			} else if next, changed := withoutCredentials(field.MapValue(), v); changed {
				value.Map().Set(k, next)
			}
			return err == nil
		})
	case field.IsList():
		list := value.List()
		for i := 0; i < list.Len() && err == nil; i++ {
			if field.Message() != nil {
				err = redact(list.Get(i).Message())
			} else if next, changed := withoutCredentials(field, list.Get(i)); changed {
				list.Set(i, next)
			}
		}
	case field.Message() != nil:
		err = redact(value.Message())
	default:
		if next, changed := withoutCredentials(field, value); changed {
			m.Set(field, next)
		}
	}
	return err
}

func withoutCredentials(field protoreflect.FieldDescriptor, v protoreflect.Value) (next protoreflect.Value,
	changed bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		text := credential.Text(v.String())
		return protoreflect.ValueOfString(text), text != v.String()
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(redactedText)), strings.Contains(string(v.Bytes()), credential.KeyMark)
	}
	return v, false
}

func redactAny(packed *anypb.Any) error {
	inner, err := packed.UnmarshalNew()
	if err != nil {
		packed.Value = nil
		return nil
	}
	if err := redact(inner.ProtoReflect()); err != nil {
		return err
	}
	if packed.Value, err = (proto.MarshalOptions{Deterministic: true}).Marshal(inner); err != nil {
		return fmt.Errorf("encode %s: %w", packed.GetTypeUrl(), err)
	}
	return nil
}

func isSensitive(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	return ok && proto.HasExtension(options, annotations.E_Sensitive) &&
		proto.GetExtension(options, annotations.E_Sensitive).(bool)
}
