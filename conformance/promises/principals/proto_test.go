package principals

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// walkProto is walk for a protobuf message. It does not descend again into a message that contains
// itself. A message for which whole returns true counts as one field.
func (w *walker) walkProto(
	path string, m protoreflect.MessageDescriptor, whole func(protoreflect.MessageDescriptor) bool,
	within ...protoreflect.FullName,
) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		at := path + "." + string(f.Name())
		if w.skips(at) {
			continue
		}
		if f.IsList() || f.IsMap() {
			c := list
			if f.IsMap() {
				c = mapping
			}
			w.fields = append(w.fields, field{path: at, class: c})
			if at += "[]"; f.IsMap() || w.skips(at) {
				continue
			}
		}
		if c := w.protoClass(at, f); c != "" {
			w.fields = append(w.fields, field{path: at, class: c})
			continue
		}
		switch message := f.Message(); {
		case whole(message):
			w.fields = append(w.fields, field{path: at, class: mapping})
		case !contains(within, message.FullName()):
			w.walkProto(at, message, whole, append(within[:len(within):len(within)], message.FullName())...)
		}
	}
}

func contains(list []protoreflect.FullName, name protoreflect.FullName) bool {
	for _, n := range list {
		if n == name {
			return true
		}
	}
	return false
}

// protoClass returns the class of a protobuf field or element, or "" for a message with fields.
func (w *walker) protoClass(path string, f protoreflect.FieldDescriptor) class {
	longest := ""
	for end := range w.classes {
		if strings.HasSuffix(path, "."+end) && len(end) > len(longest) {
			longest = end
		}
	}
	if longest != "" {
		return w.classes[longest]
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return boolean
	case protoreflect.EnumKind:
		return choice
	case protoreflect.StringKind, protoreflect.BytesKind:
		return text
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Duration":
			return duration
		case "google.protobuf.Struct", "google.protobuf.Any":
			return mapping
		case "google.protobuf.BoolValue":
			return boolean
		}
		return ""
	}
	return number
}

// Sizes of the values maximum and overflow in protobuf fields.
var (
	protoText  = map[value]int{zero: 0, maximum: 4 << 10, overflow: 128 << 10}
	protoItems = map[value]int{zero: 0, maximum: 32, overflow: 10_000}
)

// setProto sets the field at a path. An empty list on the path gets an element.
func setProto(t testing.TB, m protoreflect.Message, steps []string, v value, another func(class) string, c class) {
	t.Helper()
	f := m.Descriptor().Fields().ByName(protoreflect.Name(steps[0]))
	if f == nil {
		t.Fatalf("%s has no field %s", m.Descriptor().FullName(), steps[0])
	}
	rest := steps[1:]
	if f.IsList() && len(rest) > 0 {
		list := m.Mutable(f).List()
		if f.Message() == nil {
			list.Truncate(0)
			list.Append(scalar(f, v, another, c))
			return
		}
		if list.Len() == 0 {
			seed(list.AppendMutable().Message())
		}
		if rest = rest[1:]; len(rest) > 0 {
			setProto(t, list.Get(0).Message(), rest, v, another, c)
			return
		}
		fillMessage(list.Get(0).Message(), v)
		return
	}
	if len(rest) > 0 {
		setProto(t, m.Mutable(f).Message(), rest, v, another, c)
		return
	}
	switch {
	case f.IsList():
		repeat(m.Mutable(f).List(), f, protoItems[v])
	case f.IsMap():
		entries := m.Mutable(f).Map()
		for i := range protoItems[v] {
			key := protoreflect.ValueOfString(strings.Repeat("k", i+1)).MapKey()
			if f.MapValue().Message() != nil {
				entries.Set(key, entries.NewValue())
			} else {
				entries.Set(key, protoreflect.ValueOfString("v"))
			}
		}
	case f.Message() != nil:
		fillMessage(m.Mutable(f).Message(), v)
	case v == overflow && c == number: // too large for the type
		raw := protowire.AppendTag(m.GetUnknown(), f.Number(), protowire.VarintType)
		m.SetUnknown(protowire.AppendVarint(raw, 1<<64-1))
	default:
		m.Set(f, scalar(f, v, another, c))
	}
}

// seed sets a header's name and value. Without them, the header's other fields have no effect.
func seed(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		switch f := m.Descriptor().Fields().Get(i); f.Name() {
		case "header":
			seed(m.Mutable(f).Message())
		case "key":
			m.Set(f, protoreflect.ValueOfString("x-mine"))
		case "raw_value":
			m.Set(f, protoreflect.ValueOfBytes([]byte("mine")))
		}
	}
}

// repeat makes a list of n elements, which are copies of the first element, or empty.
func repeat(list protoreflect.List, f protoreflect.FieldDescriptor, n int) {
	for list.Len() < n {
		switch {
		case list.Len() > 0:
			list.Append(list.Get(0))
		case f.Message() != nil:
			list.AppendMutable()
		default:
			list.Append(protoreflect.ValueOfString("x-mine"))
		}
	}
	list.Truncate(n)
}

// fillMessage gives a well-known message a value of a size. Other messages stay empty, or get
// unknown bytes.
func fillMessage(m protoreflect.Message, v value) {
	switch message := m.Interface().(type) {
	case *durationpb.Duration:
		message.Seconds = map[value]int64{negative: -1, zero: 0, maximum: 315_576_000_000, overflow: 1<<63 - 1}[v]
	case *structpb.Struct:
		message.Fields = map[string]*structpb.Value{}
		for i := range protoItems[v] {
			message.Fields[strings.Repeat("k", i+1)] = structpb.NewStringValue("v")
		}
	default:
		if f := m.Descriptor().Fields().ByName("value"); f != nil && f.Kind() == protoreflect.BoolKind {
			m.Set(f, protoreflect.ValueOfBool(v == maximum))
			return
		}
		if n := protoText[v]; n > 0 {
			raw := protowire.AppendTag(nil, 1000, protowire.BytesType)
			m.SetUnknown(protowire.AppendString(raw, strings.Repeat("a", n)))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor, v value, another func(class) string, c class) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(v == maximum)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(map[value]protoreflect.EnumNumber{zero: 0, overflow: 1000}[v])
	case protoreflect.StringKind, protoreflect.BytesKind:
		s := strings.Repeat("a", protoText[v])
		if v == anothersName || v == anothersNamespace {
			s = another(c)
		}
		if f.Kind() == protoreflect.BytesKind {
			return protoreflect.ValueOfBytes([]byte(s))
		}
		return protoreflect.ValueOfString(s)
	}
	n := map[value]int64{negative: -1, zero: 0, maximum: 1<<31 - 1}[v]
	switch f.Kind() {
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	return protoreflect.ValueOfInt64(n)
}
