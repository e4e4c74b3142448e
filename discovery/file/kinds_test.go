package file

import (
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

var derivedKinds = map[string]bool{"Host": true, "Invalid": true, "Learned": true, "Offer": true, "Failback": true,
	"Dialect": true, "Authority": true, "Membership": true, "Export": true, "AddressPolicy": true,
	"ProcessorDefault": true, "Occupant": true}

func TestFile_EachKindIsListedOnce(t *testing.T) {
	listed := map[string]bool{}
	for _, k := range kinds() {
		if listed[k.table.Kind()] {
			t.Errorf("kinds lists %s twice", k.table.Kind())
		}
		listed[k.table.Kind()] = true
	}
	for _, table := range store.Tables() {
		if !listed[table.Kind()] && !derivedKinds[table.Kind()] {
			t.Errorf("kinds does not list %s", table.Kind())
		}
	}
}
