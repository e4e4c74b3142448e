package file

import "testing"

func TestPanic_OfOneDocumentIsItsOwnMistake(t *testing.T) {
	var at string
	// Reading a document panics, because the Reader has no catalog.
	r := &Reader{cfg: Config{OnPanic: func(document string, _ any, _ []byte) { at = document }}}
	doc := &document{text: "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", line: 3}
	if err := r.readDocument(t.Context(), "a.yaml", doc); err != nil {
		t.Fatal(err)
	}
	if !doc.unidentified || len(doc.mistakes) != 1 || len(doc.objects) != 0 || at != "a.yaml:3" {
		t.Errorf("at %q: got %+v, want a.yaml:3, one mistake, and no object", at, doc)
	}
}
