package model

import "testing"

func TestPickerKey_BelongsToOneGateway(t *testing.T) {
	roots := []string{"new", "old"}
	for key, want := range map[string]string{
		PickKey("new", "a/gw"):   "a/gw",
		PickKey("old", "a/gw"):   "a/gw",
		PickKey("other", "a/gw"): "",
		// another Gateway's name before the code of a/gw
		"b/gw" + PickKey("new", "a/gw")[4:]:   "",
		PickKey("new", "a/gw") + "00":         "",
		PickKey("new", ""):                    "",
		"new":                                 "",
		"a/gw":                                "",
		"a/gw~":                               "",
		"":                                    "",
		"a/gw~" + PickKey("new", "a/gw")[5:9]: "",
	} {
		if got := PickKeyOwner(roots, key); got != want {
			t.Errorf("%q is the key of %q, want %q", key, got, want)
		}
	}
	if got := PickKeyOwner(nil, PickKey("", "a/gw")); got != "" {
		t.Errorf("without a root key a key of %q counts, want none", got)
	}
}
