package translator_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

func TestThen_KeepsEveryFieldOfTheFirstUpdate(t *testing.T) {
	// The caller of Then has already handled these fields.
	caller := map[string]bool{"Wanted": true, "Unwanted": true}
	for i := range reflect.TypeFor[translator.Output]().NumField() {
		var first translator.Output
		field := reflect.ValueOf(&first).Elem().Field(i)
		name := reflect.TypeFor[translator.Output]().Field(i).Name
		if caller[name] {
			continue
		}
		switch field.Kind() {
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
			if name == "Pools" {
				first.Pools[0].Pool = &model.Pool{}
			}
		case reflect.Interface:
			field.Set(reflect.ValueOf(errors.New("a fault")))
		case reflect.Bool:
			field.SetBool(true)
		case reflect.String:
			field.SetString("work")
		default:
			t.Fatalf("field %s is a %s, want a kind that this test fills", name, field.Kind())
		}
		got := reflect.ValueOf(first.Then(translator.Output{Work: "nothing"})).Field(i)
		if got.IsZero() || got.Kind() == reflect.Slice && got.Len() != 1 {
			t.Errorf("got %v of field %s, want what the first update has", got, name)
		}
	}
}
