package gatewayapi

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Missing is why the object of a reference has no effect, as a sentence without a period: it is
// invalid, or else absent, which is such a sentence, followed by the name that from may mean.
func Missing(r store.Reader, from, ref report.Ref, absent string) string {
	if invalid(r, ref) {
		return ref.String() + " is invalid: see its findings"
	}
	return absent + meantObject(r, from, ref)
}

// invalid reports whether files define an object that is invalid and not in use.
func invalid(r store.Reader, ref report.Ref) bool {
	mark := report.Ref{Namespace: ref.Namespace, Name: store.InvalidName(ref.Kind, ref.Name)}
	_, ok := store.Invalids.Get(r, mark.Key())
	return ok
}

// NotExist is Missing for an object that "does not exist".
func NotExist(r store.Reader, from, ref report.Ref) string {
	return Missing(r, from, ref, ref.String()+" does not exist")
}

// meantObject suggests the object of a reference's kind and namespace with a similar name, if from
// may refer to it.
func meantObject(r store.Reader, from, ref report.Ref) string {
	if !Granted(r, from, ref) {
		return ""
	}
	var names []string
	for _, id := range idsOf(r, ref, store.ByNamespace, ref.Namespace) {
		_, name := store.ParseID(id)
		names = append(names, name)
	}
	return DidYouMean(ref.Name, names)
}

// Elsewhere suggests the pool or import of another namespace that has the name of one which is
// missing: "; did you mean …?", or "". Where several users have namespaces, it discloses nothing
// about those that from may not refer to. A folder's files are one user's.
func Elsewhere(r store.Reader, from, ref report.Ref) string {
	if invalid(r, ref) {
		return ""
	}
	ids := idsOf(r, ref, store.ByName, ref.Name)
	if slices.Contains(ids, ref.Key()) {
		return ""
	}
	for _, id := range ids {
		there := ref
		there.Namespace, _ = store.ParseID(id)
		switch {
		case Granted(r, from, there):
			return fmt.Sprintf("; did you mean namespace: %s?", there.Namespace)
		case !onDemand(r, store.Secrets.Kind()):
			return fmt.Sprintf("; did you mean namespace: %s? It needs a ReferenceGrant there", there.Namespace)
		}
	}
	return ""
}

// mostNames is among how many objects a suggestion is looked for: each change of one of them
// translates anew what refers to a missing one.
const mostNames = 64

// idsOf lists the primary keys of the objects of a reference's kind with a key of an index; none if
// there are more than mostNames, of a kind without the index, or of which the store has only what
// is read.
func idsOf(r store.Reader, ref report.Ref, index, key string) []string {
	matches := func(k store.Kind) bool { return k.Group() == ref.Group && k.Kind() == ref.Kind }
	i := slices.IndexFunc(store.Tables(), matches)
	if i < 0 || onDemand(r, ref.Kind) {
		return nil
	}
	return store.IDs(r, store.Tables()[i], index, key, mostNames)
}

// DidYouMean suggests the most similar of some names: ": did you mean NAME?", or "".
func DidYouMean(name string, names []string) string {
	if near := report.Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", near)
	}
	return ""
}

// onDemand reports whether a kind's table has only what is read: then it cannot be searched. A
// folder's tables have everything.
func onDemand(r store.Reader, kind string) bool {
	graph, ok := r.(interface{ OnDemand(table string) bool })
	return ok && graph.OnDemand(kind)
}
