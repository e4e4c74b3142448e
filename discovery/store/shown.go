package store

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type way int

const (
	undecided way = iota // hidden, and TestShow_EveryFieldIsDecided fails
	whole                // shown according to the decisions about the field's type
	hidden
	naming // a name of an object
	// lengths shows the keys of a map and the lengths of its values, or the length of bytes. It
	// shows certificates as text.
	lengths
	certificates // only the certificates of a PEM text
	named        // shown unless the field Name names a credential
	annotated    // a map of texts, without credentials and kubectl's copy of the object
	origin       // only the scheme and host of a URL
)

type part struct {
	way    way
	fields string
}

func annotations(fields string) part { return part{annotated, fields} }
func shown(fields string) part       { return part{whole, fields} }
func object(fields string) part      { return shown("TypeMeta ObjectMeta " + fields) }
func names(fields string) part       { return part{naming, fields} }
func omit(fields string) part        { return part{hidden, fields} }
func sizes(fields string) part       { return part{lengths, fields} }
func certified(fields string) part   { return part{certificates, fields} }
func unlessNamed(fields string) part { return part{named, fields} }

type decision struct {
	typ    reflect.Type
	fields map[string]way
}

// decide returns the decision for type T: how pages show each field in parts. Other fields are
// hidden.
func decide[T any](parts ...part) decision {
	d := decision{reflect.TypeFor[T](), map[string]way{}}
	for _, p := range parts {
		for f := range strings.FieldsSeq(p.fields) {
			d.fields[f] = p.way
		}
	}
	return d
}

func byType(lists ...[]decision) map[reflect.Type]map[string]way {
	all := map[reflect.Type]map[string]way{}
	for _, d := range slices.Concat(lists...) {
		all[d.typ] = d.fields
	}
	return all
}

// values are the types that pages show in their own JSON form.
var values = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
	reflect.TypeFor[resource.Quantity](),
	reflect.TypeFor[intstr.IntOrString](),
	reflect.TypeFor[v1alpha1.DeviceCount](),
}

// Show returns the JSON of an object's visible fields (decisions.go) for pages and commands,
// without credentials that package credential recognizes.
func Show(obj Object) (json.RawMessage, error) {
	out, ok := show(reflect.ValueOf(obj))
	if !ok {
		return nil, fmt.Errorf("it is not decided how a %T is shown", obj)
	}
	return json.Marshal(out)
}

// Quotable reports whether a report may quote the value of a field, because pages show it. path is
// a finding's Field, such as spec.rules[0].matches[0].path.value.
func Quotable(k Kind, path string) bool {
	t := reflect.TypeOf(k.New())
	for path != "" {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return true
		}
		var name string
		name, path, _ = strings.Cut(path, ".")
		name, _, _ = strings.Cut(name, "[")
		var how way
		if t, how = member(t, name); how != whole && how != naming && how != annotated {
			return false
		}
	}
	return true
}

func member(t reflect.Type, name string) (reflect.Type, way) {
	for i := range t.NumField() {
		field := t.Field(i)
		switch tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case tag == name, tag == "" && field.Name == name && !field.Anonymous:
			return field.Type, decisions[t][field.Name]
		case tag == "" && field.Anonymous && decisions[t][field.Name] == whole:
			if typ, how := member(field.Type, name); how != undecided {
				return typ, how
			}
		}
	}
	return nil, undecided
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func show(v reflect.Value) (any, bool) {
	t := v.Type()
	switch {
	case slices.Contains(values, t):
		return v.Interface(), true
	case t.Kind() != reflect.Pointer && (t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)):
		return nil, false
	}
	switch t.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil, true
		}
		return show(v.Elem())
	case reflect.Struct:
		return showStruct(v)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil, false // bytes may be any text, so they need their own decision
		}
		out := make([]any, v.Len())
		for i := range out {
			var ok bool
			if out[i], ok = show(v.Index(i)); !ok {
				return nil, false
			}
		}
		return out, true
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for each := v.MapRange(); each.Next(); {
			if value, ok := show(each.Value()); ok {
				out[each.Key().String()] = value
			}
		}
		return out, true
	case reflect.String:
		return credential.Text(v.String()), true
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return nil, false
	}
	return v.Interface(), true
}

func showStruct(v reflect.Value) (any, bool) {
	decided, ok := decisions[v.Type()]
	if !ok {
		return nil, false
	}
	out := map[string]any{}
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || left(options, value) {
			continue
		}
		one, ok := showField(decided[field.Name], v, value)
		if !ok {
			continue
		}
		if inline, embedded := one.(map[string]any); embedded && field.Anonymous && name == "" {
			maps.Copy(out, inline)
			continue
		}
		if name == "" {
			name = field.Name
		}
		out[name] = one
	}
	return out, true
}

func left(options string, v reflect.Value) bool {
	switch {
	case strings.Contains(options, "omitzero") && v.IsZero():
		return true
	case !strings.Contains(options, "omitempty"):
		return false
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func showField(how way, parent, v reflect.Value) (any, bool) {
	switch how {
	case whole:
		return show(v)
	case naming:
		return showNames(v), true
	case lengths:
		return showLengths(v), true
	case certificates:
		return Certificates(text(v)), true
	case named:
		return credential.Value(parent.FieldByName("Name").String(), v.String()), true
	case annotated:
		out := map[string]string{}
		for each := v.MapRange(); each.Next(); {
			// this annotation, which kubectl apply writes, is a copy of the object
			if name := each.Key().String(); name != corev1.LastAppliedConfigAnnotation {
				out[name] = credential.Value(name, each.Value().String())
			}
		}
		return out, true
	case origin:
		u, err := url.Parse(v.String())
		if err != nil || u.Host == "" {
			return "", true
		}
		return u.Scheme + "://" + u.Host, true
	}
	return nil, false
}

func showNames(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return showNames(v.Elem())
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = showNames(v.Index(i))
		}
		return out
	}
	return credential.ObjectName(v.String())
}

func text(v reflect.Value) []byte {
	if v.Kind() == reflect.String {
		return []byte(v.String())
	}
	return v.Bytes()
}

func showLengths(v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Map:
		out := map[string]any{}
		for each := v.MapRange(); each.Next(); {
			out[each.Key().String()] = lengthOf(text(each.Value()))
		}
		return out
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		v = v.FieldByName("Raw")
	}
	return lengthOf(text(v))
}

func lengthOf(b []byte) string {
	if chain := Certificates(b); chain != "" && len(bytes.TrimSpace(b)) == len(strings.TrimSpace(chain)) {
		return chain
	}
	return credential.Redacted(len(b))
}

// Certificates returns the certificates in a PEM text, without keys and comments.
func Certificates(text []byte) string {
	var out strings.Builder
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return out.String()
		}
		if block.Type == "CERTIFICATE" {
			_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // a Builder never fails
		}
	}
}
