package file

import (
	"math"
	"reflect"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func goProps(obj any) *apiextensions.JSONSchemaProps {
	p := typeProps(reflect.TypeOf(obj).Elem())
	return &p
}

// bound adds limits from a Go type's schema `by` to the integers in a CRD's schema p. Otherwise,
// decoding into the Go type would truncate larger numbers.
func bound(p, by *apiextensions.JSONSchemaProps) {
	if p.Type == "integer" && p.Format == "" {
		if p.Minimum == nil {
			p.Minimum = by.Minimum
		}
		if p.Maximum == nil {
			p.Maximum = by.Maximum
		}
	}
	for name, child := range p.Properties {
		if limits, ok := by.Properties[name]; ok {
			bound(&child, &limits)
			p.Properties[name] = child
		}
	}
	if p.Items != nil && p.Items.Schema != nil && by.Items != nil {
		bound(p.Items.Schema, by.Items.Schema)
	}
	if a, b := p.AdditionalProperties, by.AdditionalProperties; a != nil && a.Schema != nil && b != nil {
		bound(a.Schema, b.Schema)
	}
}

func metadataProps() apiextensions.JSONSchemaProps {
	p := typeProps(reflect.TypeFor[metav1.ObjectMeta]())
	name := p.Properties["name"]
	minLength := int64(1)
	name.MinLength = &minLength
	p.Properties["name"] = name
	p.Required = []string{"name"}
	return p
}

var specialTypes = map[reflect.Type]apiextensions.JSONSchemaProps{
	reflect.TypeFor[metav1.Time]():          {Type: "string", Format: "date-time"},
	reflect.TypeFor[metav1.MicroTime]():     {Type: "string", Format: "date-time"},
	reflect.TypeFor[metav1.Duration]():      {Type: "string"},
	reflect.TypeFor[intstr.IntOrString]():   {XIntOrString: true},
	reflect.TypeFor[resource.Quantity]():    {XPreserveUnknownFields: new(true)}, // a number or a string
	reflect.TypeFor[[]byte]():               {Type: "string", Format: "byte"},
	reflect.TypeFor[runtime.RawExtension](): {Type: "object", XPreserveUnknownFields: new(true)},
	reflect.TypeFor[metav1.FieldsV1]():      {Type: "object", XPreserveUnknownFields: new(true)},
}

func typeProps(t reflect.Type) apiextensions.JSONSchemaProps {
	p := shapeOf(t)
	p.Nullable = true
	return p
}

func shapeOf(t reflect.Type) apiextensions.JSONSchemaProps {
	if p, ok := specialTypes[t]; ok {
		return p
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Struct:
		p := apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{}}
		fieldProps(t, p.Properties)
		return p
	case reflect.Map:
		elem := typeProps(t.Elem())
		return apiextensions.JSONSchemaProps{Type: "object",
			AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &elem}}
	case reflect.Slice, reflect.Array:
		elem := typeProps(t.Elem())
		return apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &elem}}
	case reflect.String:
		return apiextensions.JSONSchemaProps{Type: "string"}
	case reflect.Bool:
		return apiextensions.JSONSchemaProps{Type: "boolean"}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := math.Ldexp(1, t.Bits()-1)
		return apiextensions.JSONSchemaProps{Type: "integer", Minimum: new(-most), Maximum: new(most - 1)}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return apiextensions.JSONSchemaProps{
			Type: "integer", Minimum: new(0.0), Maximum: new(math.Ldexp(1, t.Bits()) - 1),
		}
	case reflect.Int, reflect.Int64:
		return apiextensions.JSONSchemaProps{Type: "integer"}
	case reflect.Float32, reflect.Float64:
		return apiextensions.JSONSchemaProps{Type: "number"}
	}
	return apiextensions.JSONSchemaProps{XPreserveUnknownFields: new(true)}
}

func fieldProps(t reflect.Type, to map[string]apiextensions.JSONSchemaProps) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			fieldProps(inner, to)
		case name != "":
			to[name] = typeProps(f.Type)
		}
	}
}
