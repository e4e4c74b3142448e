package file

import (
	"os"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

var derivedKinds = map[string]bool{"Host": true, "Invalid": true, "Learned": true, "Offer": true, "Failback": true,
	"Dialect": true, "Authority": true, "Membership": true, "Export": true, "AddressPolicy": true,
	"ProcessorDefault": true, "Occupant": true}

// The package's comment promises one file for each kind.
func TestFile_EachKindHasItsOwnSourceFile(t *testing.T) {
	listed := map[string]bool{}
	for _, k := range kinds() {
		name := k.table.Kind()
		listed[name] = true
		path := "kind_" + strings.ToLower(name) + ".go"
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(text), "*kind {"); n != 1 {
			t.Errorf("%s defines %d kinds, want 1", path, n)
		}
	}
	for _, table := range store.Tables() {
		if !listed[table.Kind()] && !derivedKinds[table.Kind()] {
			t.Errorf("kinds does not list %s", table.Kind())
		}
	}
}
