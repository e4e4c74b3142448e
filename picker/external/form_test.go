package external_test

import (
	"testing"

	"github.com/penstock-project/penstock/picker/external"
)

func TestForm_IsThatOfTheFirstBytes(t *testing.T) {
	for raw, want := range map[string]external.Form{
		``: external.OtherForm, `null`: external.OtherForm, `7`: external.OtherForm, `{"a":[]}`: external.OtherForm,
		`"[1]"`: external.TextForm, `""`: external.TextForm,
		`["a", 1]`: external.TextsForm, "[\n\t \"a\"]": external.TextsForm, `[]`: external.ListForm,
		`[1, "a"]`: external.ListForm, `[{"text":"a"}]`: external.ListForm, `[[1]]`: external.ListForm,
	} {
		if got := external.FormOf([]byte(raw)); got != want {
			t.Errorf("%s has form %d, want %d", raw, got, want)
		}
	}
}
