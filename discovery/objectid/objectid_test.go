package objectid_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/objectid"
)

var (
	chat = objectid.Pool{Namespace: "default", Name: "chat"}
	// texts are valid texts of identities, and invalid texts that resemble them.
	texts = []string{
		"", "/", "a", "a/", "/b", "a/b", "a//b", "a/b/", "a/b/c", "a/b/c/d", "a/b@", "a/b@c", "a/b@c@d", "a/b@c/d",
		"a@b/c", "@", "a/@b", "a/ b",
	}
)

func TestPool_TextNamesOnePool(t *testing.T) {
	if got, ok := objectid.ParsePool("default/chat"); !ok || got != chat || got.String() != "default/chat" {
		t.Errorf("read as %#v, %t; want %#v", got, ok, chat)
	}
	for _, text := range []string{"", "/", "chat", "default/", "/chat", "default/chat/", "default//chat",
		"default/chat/x"} {
		if got, ok := objectid.ParsePool(text); ok || !got.IsZero() {
			t.Errorf("%q reads as %#v, %t; want no pool", text, got, ok)
		}
	}
	for text, valid := range map[string]bool{"default/chat": true, "default/chat.v1": true, "def.ault/chat": false,
		"default/Chat": false, "default/chat@west": false} {
		if p, ok := objectid.ParsePool(text); !ok || p.IsValid() != valid {
			t.Errorf("%q: valid %t, want %t", text, p.IsValid(), valid)
		}
	}
}

// IsValid must agree with Kubernetes. If it accepts a name that Kubernetes rejects, writes of
// objects with this name fail at the API server.
func TestPool_IsValidIfKubernetesAcceptsBothNames(t *testing.T) {
	const alphabet = "a9-.A_\n"
	names := []string{""}
	for last := names; len(last[0]) < 4; {
		var next []string
		for _, name := range last {
			for _, c := range alphabet {
				next = append(next, name+string(c))
			}
		}
		names, last = append(names, next...), next
	}
	for _, n := range []int{63, 64, 253, 254} {
		names = append(names, strings.Repeat("a", n))
	}
	for _, name := range names {
		if got, want := (objectid.Pool{Namespace: name, Name: "chat"}).IsValid(),
			len(validation.IsDNS1123Label(name)) == 0; got != want {
			t.Errorf("namespace %q: valid %t, want %t", name, got, want)
		}
		if got, want := (objectid.Pool{Namespace: "default", Name: name}).IsValid(),
			len(validation.IsDNS1123Subdomain(name)) == 0; got != want {
			t.Errorf("name %q: valid %t, want %t", name, got, want)
		}
	}
}

func TestMember_TextNamesMemberAndPool(t *testing.T) {
	want := objectid.Member{Member: "west", Pool: chat}
	if got, ok := objectid.ParseMember("west/default/chat"); !ok || got != want || got.String() != "west/default/chat" {
		t.Errorf("read as %#v, %t; want %#v", got, ok, want)
	}
	for _, text := range []string{"", "default/chat", "/default/chat", "west/default/chat/x", "west//chat"} {
		if got, ok := objectid.ParseMember(text); ok {
			t.Errorf("%q reads as %#v, want no member", text, got)
		}
	}
}

func TestTarget_TextDistinguishesPoolImportAndCluster(t *testing.T) {
	for text, want := range map[string]objectid.Target{
		"default/chat":      {Pool: chat},
		"default/chat@":     {Pool: chat, Import: true},
		"default/chat@west": {Pool: chat, Member: "west"},
		// A user may write such a name of a cluster into an import.
		"default/chat@a/b@": {Pool: chat, Member: "a/b@"},
		"":                  {},
	} {
		if got, ok := objectid.ParseTarget(text); ok == want.IsZero() || got != want || got.String() != text {
			t.Errorf("%q reads as %#v, %t, whose text is %q; want %#v, with the same text", text, got, ok, got, want)
		}
		if got, err := want.AppendText([]byte("pool ")); err != nil || string(got) != "pool "+text ||
			want.Len() != len(text) {
			t.Errorf("%#v is appended as %q (%v)", want, got, err)
		}
		var got objectid.Target
		if raw, err := json.Marshal(want); err != nil || json.Unmarshal(raw, &got) != nil || got != want {
			t.Errorf("%#v is %s in JSON (%v), which reads as %#v", want, raw, err, got)
		}
	}
	var got objectid.Target
	if err := got.UnmarshalText([]byte("chat")); err == nil {
		t.Errorf("got %#v, want an error: it has no namespace", got)
	}
}

func TestTarget_OrderIsThatOfItsFields(t *testing.T) {
	ordered := []objectid.Target{
		{}, {Pool: chat}, {Pool: chat, Import: true}, {Pool: chat, Member: "east"}, {Pool: chat, Member: "west"},
		{Pool: objectid.Pool{Namespace: "default", Name: "code"}},
		{Pool: objectid.Pool{Namespace: "other", Name: "chat"}},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Compare(b); got < 0 != (i < j) || got == 0 != (i == j) {
				t.Errorf("%s and %s compare %d, want the order of places %d and %d", a, b, got, i, j)
			}
		}
	}
}

// If a text parses, it must equal the String of the result. Otherwise, two texts would name one
// pool.
func FuzzObjectID_IsWhatItWasReadFrom(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := objectid.ParsePool(text); ok && p.String() != text {
			t.Errorf("%q reads as %#v, whose text is %q; want the same", text, p, p)
		}
		if m, ok := objectid.ParseMember(text); ok && m.String() != text {
			t.Errorf("%q reads as %#v, whose text is %q; want the same", text, m, m)
		}
		if p, ok := objectid.ParseTarget(text); ok && p.String() != text {
			t.Errorf("%q reads as %#v, whose text is %q; want the same", text, p, p)
		}
	})
}

func BenchmarkParseTarget(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := objectid.ParseTarget("default/chat@west"); !ok {
			b.Fatal("not read")
		}
	}
}
