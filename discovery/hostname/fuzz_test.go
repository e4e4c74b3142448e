package hostname

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzState_OnlyAddressesAreRestored checks that restore returns no addresses from a damaged state
// file, and exactly the valid addresses from a valid file.
func FuzzState_OnlyAddressesAreRestored(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"a.example.com":["10.0.0.1","2001:db8::1"]}`, `{"a":["10.0.0.1"]`, `{"a":"10.0.0.1"}`,
		`{"a":["x","10.0.0.1",""],"b":[],"c":null}`,
		`{"a":["fe80::1%eth0"]}`, `{"a":["10.0.0.1"],"a":["10.0.0.2"]}`, "\x00\x00",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(dir, stateFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		got := restore(dir, slog.New(slog.DiscardHandler)).addresses
		var want map[string][]string
		if json.Unmarshal(raw, &want) != nil {
			want = nil
		}
		for name, addresses := range want {
			addresses = slices.DeleteFunc(addresses,
				func(a string) bool { _, err := netip.ParseAddr(a); return err != nil })
			if !slices.Equal(got[name], addresses) {
				t.Errorf("%q: %q, want %q", name, got[name], addresses)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%q is restored, want no name but those saved", name)
			}
		}
	})
}
