package file

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// If an AccessPolicy is invalid and never had a valid version, its targets must be closed, because
// they would be open without a policy. The store then has a closed policy
// (v1alpha1.ClosedAccessPolicy), which is never persisted as a last good form.
//
// The names of these closed policies contain #, which no name of a user's object contains:
//   - unnamed#DIGEST closes the targets of a document without a readable name. Such a document may
//     be the changed version of a last good policy that no document defines any more, and that
//     stays in use. So these closed policies exist only while the file has more such documents than
//     such policies.
//   - NAME#2: policy NAME has several definitions. It closes the targets that are only in the
//     definitions that are not in use.
const (
	unnamed = "unnamed#"
	second  = "#2"
)

func closedPolicy(namespace, name string, spec any, why v1alpha1.AccessClosure) store.Object {
	return v1alpha1.ClosedAccessPolicy(namespace, name, spec, why)
}

func (c *catalog) closing(name string) *kind {
	for _, k := range c.byName[name] {
		if k.closed != nil {
			return k
		}
	}
	return nil
}

// meansClosing returns the kind that a document with a mistyped kind or apiVersion may mean, if
// invalid objects of that kind close their targets. It returns the nearest known kind or, if the
// document has fields of an AccessPolicy for targets and for credentials, AccessPolicy. If the
// kind's name resembles no kind, and the group is Penstock's, one of these fields suffices.
func (c *catalog) meansClosing(obj map[string]any) *kind {
	kindName, _ := obj["kind"].(string)
	near := c.nearest(kindName)
	if k := c.closing(near); k != nil {
		return k
	}
	spec, _ := obj["spec"].(map[string]any)
	apiVersion, _ := obj["apiVersion"].(string)
	has := func(a, b string) bool {
		_, first := spec[a]
		_, second := spec[b]
		return first || second
	}
	targets, keys := has("targetRefs", "targetRef"), has("apiKeys", "jwt")
	if targets && keys || (targets || keys) && near == "" && ourGroup(groupOf(apiVersion)) {
		return c.closing(store.AccessPolicies.Kind())
	}
	return nil
}

// toClose holds a copy of the fields that closeObject reads. Validation may remove them from the
// document.
type toClose struct {
	kind       *kind
	spec       map[string]any
	namespaces []string // values of keys that may be a mistyped metadata.namespace
}

func (c *catalog) toClose(obj map[string]any) (out toClose) {
	if out.kind = c.meansClosing(obj); out.kind != nil {
		spec, _ := obj["spec"].(map[string]any)
		out.spec = runtime.DeepCopyJSON(spec)
		out.namespaces = mistypedNamespaces(obj)
	}
	return out
}

// mistypedNamespaces returns the possible namespaces of a document without metadata.namespace, from
// misplaced or mistyped keys.
func mistypedNamespaces(obj map[string]any) (namespaces []string) {
	meta, _ := obj["metadata"].(map[string]any)
	if _, ok := meta["namespace"].(string); ok {
		return nil
	}
	add := func(fields map[string]any) {
		for key, v := range fields {
			text, _ := v.(string)
			if report.Nearest(key, []string{"namespace"}) != "" && len(validation.IsDNS1123Label(text)) == 0 {
				namespaces = append(namespaces, text)
			}
		}
	}
	add(obj)
	for key, v := range obj {
		if fields, ok := v.(map[string]any); ok && report.Nearest(key, []string{"metadata"}) != "" {
			add(fields)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// closeNested closes the targets of the AccessPolicies inside an unread document, such as a list of
// another kind. It reports whether there are any.
func (doc *document) closeNested(c *catalog, at *object, v any) (found bool) {
	var values []any
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			values = append(values, v[key])
		}
	case []any:
		values = v
	}
	for _, v := range values {
		obj, _ := v.(map[string]any)
		kindName, _ := obj["kind"].(string)
		spec, whole := obj["spec"].(map[string]any)
		if k := c.closing(c.nearest(kindName)); k != nil && whole {
			meta, _ := obj["metadata"].(map[string]any)
			name, _ := meta["name"].(string)
			namespace, _ := meta["namespace"].(string)
			doc.addClosed(k, at, cmp.Or(namespace, metav1.NamespaceDefault), name, spec)
			found = true
			continue
		}
		found = doc.closeNested(c, at, v) || found
	}
	return found
}

// closeObject sets o.closed, the closed policy, if the object o is invalid and may be an
// AccessPolicy. If the kind or name of o is unreadable, it adds an object with the closed policy to
// doc instead. parsed has the mistakes that parsing found.
func (doc *document) closeObject(c *catalog, o *object, obj map[string]any, read toClose, parsed []mistake) {
	if o.good != nil || !hasError(o.mistakes) {
		return
	}
	duplicate := func(m mistake) bool { return m.field == "kind" }
	k, spec := read.kind, read.spec
	if k == nil {
		// Perhaps a line --- is missing between two documents.
		if slices.ContainsFunc(parsed, duplicate) {
			doc.closeUnnamed(c)
		}
		return
	}
	if slices.ContainsFunc(parsed, func(m mistake) bool {
		return duplicate(m) || m.field == "spec" || strings.HasPrefix(m.field, "spec.targetRef")
	}) {
		spec = nil // a value of a duplicate key is lost, so the targets are unknown
	}
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	for _, namespace := range read.namespaces {
		doc.addClosed(k, o, namespace, name, spec)
	}
	if o.kind == k && o.ref.Name != "" {
		o.closed = k.closed(o.ref.Namespace, o.ref.Name, spec, v1alpha1.ClosedInvalid)
		return
	}
	namespace, _ := meta["namespace"].(string)
	doc.addClosed(k, o, cmp.Or(namespace, metav1.NamespaceDefault), name, spec)
}

func (doc *document) addClosed(k *kind, at *object, namespace, name string, spec any) {
	digest := sha256.Sum256([]byte(doc.text))
	o := &object{kind: k, line: at.line, item: at.item, unnamed: name == ""}
	o.ref = report.Ref{Group: k.table.Group(), Kind: k.table.Kind(), Namespace: namespace,
		Name: cmp.Or(name, unnamed+hex.EncodeToString(digest[:4]))}
	o.closed = k.closed(namespace, o.ref.Name, spec, v1alpha1.ClosedInvalid)
	doc.objects = append(doc.objects, o)
}

var (
	kindLine      = regexp.MustCompile(`\bkind["']?\s*:\s*["']?(\w+)`)
	namespaceLine = regexp.MustCompile(`\bnamespace["']?\s*:\s*["']?([a-z0-9-]+)`)
	accessLine    = regexp.MustCompile(`\b(apiKeys|jwt)["']?\s*:`)
)

// closeUnnamed adds closed policies for a document that cannot be parsed, if its text may be an
// AccessPolicy. Each closed policy closes a whole namespace: each namespace in the text or, without
// one, the default namespace.
func (doc *document) closeUnnamed(c *catalog) {
	doc.access = doc.access || strings.Contains(doc.text, "access")
	var k *kind
	namespaces := map[string]any{}
	exempts, other, keys := false, false, false
	for line := range strings.Lines(doc.text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, found := range kindLine.FindAllStringSubmatch(line, -1) {
			near := c.nearest(found[1])
			if k == nil {
				k = c.closing(near)
			}
			other = other || near != "" && c.byName[near][0].table.Group() == v1alpha1.Group
		}
		keys = keys || accessLine.MatchString(line)
		for _, found := range namespaceLine.FindAllStringSubmatch(line, -1) {
			if len(validation.IsDNS1123Label(found[1])) == 0 {
				namespaces[found[1]] = nil
			}
		}
		// The routes in an except list have their own namespaces.
		exempts = exempts || strings.Contains(line, "except")
	}
	if k == nil && keys && !other && strings.Contains(doc.text, ourName) { // the kind is mistyped
		k = c.closing(store.AccessPolicies.Kind())
	}
	if k == nil {
		return
	}
	if len(namespaces) == 0 || exempts {
		namespaces[metav1.NamespaceDefault] = nil
	}
	for _, namespace := range sortedKeys(namespaces) {
		doc.addClosed(k, &object{item: -1}, namespace, "", nil)
	}
}

// closeInvalid stores a closed policy in place of an object without a valid version, and removes it
// once the object has one. It does the same for the closed policy NAME#2.
func (r *Reader) closeInvalid(ref report.Ref, now keptObject) (ops []store.Op) {
	list := r.claims[ref]
	other := ref
	other.Name += second
	var instead, more store.Object
	switch {
	case now.good == nil && len(list) > 0 && list[0].object.closed != nil && !r.mayBeKept(list[0]):
		instead = list[0].object.closed
		if targets := targetsOf(list); len(list) > 1 {
			instead = withTargets(instead, targets)
		}
	case now.good != nil && len(list) > 1 && now.kind.closed != nil:
		inUse, _ := now.object().(*v1alpha1.AccessPolicy)
		targets := slices.DeleteFunc(targetsOf(list[1:]), func(t v1alpha1.AccessTarget) bool {
			return slices.Contains(withoutGroups(inUse.Spec.TargetRefs), t)
		})
		if len(targets) > 0 {
			more = withTargets(closedPolicy(ref.Namespace, other.Name, nil, v1alpha1.ClosedSecond), targets)
		}
	}
	if now.good != nil {
		delete(r.closed, ref) // Reader.decide puts the valid object into the store
	} else {
		ops = r.putClosed(ops, ref, instead)
	}
	return r.putClosed(ops, other, more)
}

func (r *Reader) putClosed(ops []store.Op, ref report.Ref, o store.Object) []store.Op {
	old := r.closed[ref]
	switch {
	case o == nil && old == nil:
		return ops
	case o == nil:
		delete(r.closed, ref)
		return append(ops, store.AccessPolicies.Delete(ref.Key()))
	case o == old:
		return ops
	}
	r.closed[ref] = o
	return append(ops, store.AccessPolicies.PutObject(o))
}

// mayBeKept reports whether a document without a readable name may be the newest version of a last
// good policy in use.
func (r *Reader) mayBeKept(c claim) bool {
	if !c.object.unnamed {
		return false
	}
	documents, kept := 0, 0
	for _, doc := range r.files[c.path].docs {
		if slices.ContainsFunc(doc.objects, func(o *object) bool { return o.unnamed }) {
			documents++
		}
	}
	for ref, k := range r.kept {
		if k.path == c.path && k.kind == c.object.kind && len(r.claims[ref]) == 0 {
			kept++
		}
	}
	return documents <= kept
}

func targetsOf(list []claim) (targets []v1alpha1.AccessTarget) {
	for _, c := range list {
		var o store.Object
		switch {
		case c.object.good != nil:
			o = c.object.good.object()
		case c.object.closed != nil:
			o = c.object.closed
		}
		p, ok := o.(*v1alpha1.AccessPolicy)
		if !ok {
			continue
		}
		for _, t := range withoutGroups(p.Spec.TargetRefs) {
			if !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
	}
	return targets
}

func withoutGroups(targets []v1alpha1.AccessTarget) []v1alpha1.AccessTarget {
	out := slices.Clone(targets)
	for i := range out {
		out[i].Group = ""
	}
	return out
}

func withTargets(o store.Object, targets []v1alpha1.AccessTarget) store.Object {
	p := *o.(*v1alpha1.AccessPolicy)
	p.Spec.TargetRefs = targets
	return &p
}

func withoutSecond(ref report.Ref) report.Ref {
	ref.Name = strings.TrimSuffix(ref.Name, second)
	return ref
}
