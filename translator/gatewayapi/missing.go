package gatewayapi

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Missing returns why a reference has no effect. If the object exists but is invalid, the result
// states this. Otherwise it is the parameter absent, followed by a similar name if there is one.
func Missing(r store.Reader, from, ref report.Ref, absent string) string {
	if invalid(r, ref) {
		return ref.String() + " is invalid: see its findings"
	}
	return absent + meantObject(r, from, ref)
}

func invalid(r store.Reader, ref report.Ref) bool {
	mark := report.Ref{Namespace: ref.Namespace, Name: store.InvalidName(ref.Kind, ref.Name)}
	_, ok := store.Invalids.Get(r, mark.Key())
	return ok
}

// NotExist is Missing with the text "REF does not exist".
func NotExist(r store.Reader, from, ref report.Ref) string {
	return Missing(r, from, ref, ref.String()+" does not exist")
}

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

// Elsewhere suggests the pool or import with the same name in another namespace, or returns "". If
// namespaces belong to several users, it suggests only objects for which there is a grant.
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

// mostNames limits the search, because a change of any found object recomputes the row with the
// reference.
const mostNames = 64

func idsOf(r store.Reader, ref report.Ref, index, key string) []string {
	matches := func(k store.Kind) bool { return k.Group() == ref.Group && k.Kind() == ref.Kind }
	i := slices.IndexFunc(store.Tables(), matches)
	if i < 0 || onDemand(r, ref.Kind) {
		return nil
	}
	return store.IDs(r, store.Tables()[i], index, key, mostNames)
}

// DidYouMean suggests the most similar name, or returns "".
func DidYouMean(name string, names []string) string {
	if near := report.Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", near)
	}
	return ""
}

// onDemand reports whether the store has a kind's objects only while a row reads them. No search is
// possible then.
func onDemand(r store.Reader, kind string) bool {
	graph, ok := r.(interface{ OnDemand(table string) bool })
	return ok && graph.OnDemand(kind)
}
