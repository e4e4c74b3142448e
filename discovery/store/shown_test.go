package store_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/discovery/store/storetest"
)

func TestShow_SecretFieldsAreNotPrinted(t *testing.T) {
	for _, kind := range store.Tables() {
		obj, texts := storetest.Filled(kind)
		raw, err := store.Show(obj)
		if err != nil {
			t.Errorf("%s: %v", kind.Kind(), err)
			continue
		}
		for _, c := range texts {
			if printed := strings.Contains(string(raw), c.Value); printed == c.Secret {
				t.Errorf("%s %s: printed %t, want %t as decided", kind.Kind(), c.Path, printed, !c.Secret)
			}
		}
	}
}

// Show must hide the credentials that users write into a visible field.
func TestShow_CredentialsWithinTextsAreNotPrinted(t *testing.T) {
	for _, kind := range store.Tables() {
		obj, texts := storetest.WithCredentials(kind)
		raw, err := store.Show(obj)
		if err != nil {
			t.Errorf("%s: %v", kind.Kind(), err)
			continue
		}
		for _, c := range texts {
			if c.Secret && strings.Contains(string(raw), c.Value) {
				t.Errorf("%s %s: a credential within it is printed, want it hidden: %s", kind.Kind(), c.Path, raw)
			}
		}
	}
}

// Show must never print these fields, whatever decisions.go has for them.
func TestShow_KeysAreNotPrinted(t *testing.T) {
	for _, field := range []struct {
		kind store.Kind
		path string
	}{
		{store.Authorities, "Key"}, {store.Memberships, "Key"}, {store.Secrets, "data.name"},
		{store.Secrets, "stringData.name"},
		{store.HTTPRoutes, "spec.rules[0].filters[0].requestHeaderModifier.set[0].value"},
	} {
		_, texts := storetest.Filled(field.kind)
		i := slices.IndexFunc(texts, func(c storetest.Text) bool { return c.Path == field.path })
		if i < 0 || !texts[i].Secret {
			t.Errorf("%s %s is shown, or is gone; want it secret", field.kind.Kind(), field.path)
		}
	}
}

func TestShow_HasTheFormOfJSON(t *testing.T) {
	for _, kind := range store.Tables() {
		obj, texts := storetest.Filled(kind)
		raw, err := store.Show(obj)
		if err != nil {
			t.Fatal(err)
		}
		hides := func(c storetest.Text) bool { return c.Secret && !strings.HasPrefix(c.Path, "metadata.") }
		if slices.ContainsFunc(texts, hides) {
			continue
		}
		copied := obj.DeepCopyObject().(store.Object)
		copied.SetManagedFields(nil)
		delete(copied.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
		plain, err := json.Marshal(copied)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: shown as\n%s\nwant\n%s", kind.Kind(), raw, plain)
		}
	}
}
