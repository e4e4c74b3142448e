package rows

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-memdb"
)

type row struct{ name, color string }

func table(t *testing.T) *memdb.Txn {
	t.Helper()
	db, err := memdb.NewMemDB(
		&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{"row": {Name: "row",
			Indexes: map[string]*memdb.IndexSchema{
				ByID: {
					Name: ByID, Unique: true, Indexer: Index{
						func(r any) []byte { return Key(strings.Split(r.(*row).name, "/")...) },
					},
				},
				"color": {Name: "color", AllowMissing: true, Indexer: Index{func(r any) []byte {
					if c := r.(*row).color; c != "" {
						return Key(c)
					}
					return nil
				}}},
			}}}})
	if err != nil {
		t.Fatal(err)
	}
	txn := db.Txn(true)
	for _, r := range []*row{{"a/b", "red"}, {"a/c", ""}, {"ab/c", "blue"}} {
		Must(txn.Insert("row", r))
	}
	return txn
}

func TestRows_PrefixEndsWithAPartAndRowsComeInOrder(t *testing.T) {
	txn := table(t)
	names := func(index string, prefix []byte) (out []string) {
		for r := range Walk[row](txn, nil, "row", index, prefix) {
			out = append(out, r.name)
		}
		return out
	}
	for _, c := range []struct {
		index  string
		prefix []byte
		want   []string
	}{
		{ByID, nil, []string{"a/b", "a/c", "ab/c"}},
		{ByID, Key("a"), []string{"a/b", "a/c"}},
		{"color", nil, []string{"ab/c", "a/b"}},
	} {
		if got := names(c.index, c.prefix); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, want %v", c.index, c.prefix, got, c.want)
		}
	}
	if r := First[row](txn, "row", Key("ab", "c")); r == nil || r.color != "blue" {
		t.Errorf("the first: got %v, want blue", r)
	}
	if r := First[row](txn, "row", Key("none")); r != nil {
		t.Errorf("a row that does not exist: got %v, want none", r)
	}
}
