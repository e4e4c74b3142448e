package file

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

type draft struct {
	obj   map[string]any
	moved []move
}

// move records that a conversion moved a value away from the field in which the user wrote it.
type move struct{ to, from string }

func (d *draft) move(to, from string) { d.moved = append(d.moved, move{to, from}) }

type good struct {
	kind *kind
	obj  any    // in the form of the store; nil if only raw is known
	raw  []byte // the form, if obj does not have all of its content; otherwise nil
}

// form returns the JSON of the whole object, in the kind's first version.
func (g *good) form() ([]byte, error) {
	if g.raw != nil {
		return g.raw, nil
	}
	return json.Marshal(g.object())
}

func (g *good) same(o *good) bool {
	if g == o {
		return true
	}
	a, errA := g.form()
	b, errB := o.form()
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func (g *good) put(id string) store.Op {
	g.object()
	return g.kind.table.PutPacked(id, g.obj)
}

func (g *good) ref() report.Ref {
	obj := g.object()
	return report.Ref{Group: g.kind.table.Group(), Kind: g.kind.table.Kind(), Namespace: obj.GetNamespace(),
		Name: obj.GetName()}
}

// object returns the object in the form of the store. A restored object is decoded at the first
// call, because few restored objects are used.
func (g *good) object() store.Object {
	if g.obj == nil {
		obj := g.kind.table.New()
		_ = json.Unmarshal(g.raw, obj) // cannot fail: restore has decoded the same form
		g.obj = g.kind.table.Pack(obj)
	}
	return g.kind.table.Unpack(g.obj)
}

func (doc *document) read(ctx context.Context, c *catalog) error {
	node, m := parseNode(doc.text)
	if doc.unreadable {
		m = new(wrong("", "is not text in UTF-8", "save it as UTF-8"))
	}
	if m != nil {
		doc.unidentified = true
		doc.mistakes = append(doc.mistakes, *m)
		doc.closeUnnamed(c)
		return nil
	}
	var p parser
	v := p.value(node, "", 0)
	top, ok := v.(map[string]any)
	switch {
	case v == nil && len(p.mistakes) == 0:
		return nil
	case !ok:
		doc.unidentified = true
		doc.closeUnnamed(c)
		doc.mistakes = append(p.mistakes, notAnObject("", node.Line-1))
		return nil
	}
	items, isList := top["items"].([]any)
	kindName, _ := top["kind"].(string)
	if !isList || !strings.HasSuffix(kindName, "List") {
		return doc.readObject(ctx, c, node, -1, top, p.mistakes)
	}
	apiVersion, _ := top["apiVersion"].(string)
	for _, m := range p.mistakes {
		if !strings.HasPrefix(m.field, "items[") {
			doc.mistakes = append(doc.mistakes, m)
		}
	}
	for i, item := range items {
		at := at("items", i)
		itemNode := nodeAt(node, at)
		obj, ok := item.(map[string]any)
		if !ok || itemNode == nil {
			doc.unidentified = true
			doc.closeUnnamed(c)
			doc.mistakes = append(doc.mistakes, notAnObject(at, lineOf(node, at)))
			continue
		}
		if kindName != "List" && obj["kind"] == nil && obj["apiVersion"] == nil {
			obj["kind"], obj["apiVersion"] = strings.TrimSuffix(kindName, "List"), apiVersion
		}
		if err := doc.readObject(ctx, c, itemNode, i, obj, below(p.mistakes, at)); err != nil {
			return err
		}
	}
	return nil
}

func notAnObject(field string, line int) mistake {
	m := wrong(field, "is not a Kubernetes object", "write apiVersion, kind, metadata and spec")
	m.line = line
	return m
}

func below(all []mistake, path string) (out []mistake) {
	for _, m := range all {
		if rest, ok := strings.CutPrefix(m.field, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			m.field = strings.TrimPrefix(rest, ".")
			out = append(out, m)
		}
	}
	return out
}

func (doc *document) readObject(ctx context.Context, c *catalog, node *yaml.Node, item int, obj map[string]any,
	found []mistake) error {
	o := &object{item: item, line: node.Line - 1, mistakes: found}
	read := c.toClose(obj)
	k, convert, m := o.identify(c, obj)
	if m != nil {
		m.line = lineOf(node, m.field)
		o.mistakes = append(o.mistakes, *m)
	}
	o.kind = k
	if k == nil && doc.closeNested(c, o, obj) {
		o.mistakes = append(o.mistakes, mistake{severity: report.Error, line: o.line,
			problem: "has an AccessPolicy in it, which is not read", fix: "write the policy as a document of its own"})
	}
	o.access = writesAccess(obj)
	defer func() {
		doc.access = doc.access || o.access && doc.unidentified
		doc.closeObject(c, o, obj, read, found)
	}()
	if o.ref.Name == "" {
		doc.mistakes = append(doc.mistakes, o.mistakes...)
		doc.unidentified = doc.unidentified || hasError(o.mistakes)
		return nil
	}
	doc.objects = append(doc.objects, o)
	if k == nil {
		doc.unidentified = doc.unidentified || hasError(o.mistakes)
		return nil
	}
	if hasError(o.mistakes) {
		// A document with an invalid name may define any object that the file had before.
		doc.unidentified = doc.unidentified || m != nil && strings.HasPrefix(m.field, "metadata.")
		return nil
	}
	d := &draft{obj: obj}
	if convert != nil {
		convert(d)
	}
	o.moved = d.moved
	mistakes, err := o.accept(ctx, c, k, d)
	if err != nil {
		return fmt.Errorf("%s: %w", o.ref, err)
	}
	for _, m := range mistakes {
		m.field = written(o.moved, m.field)
		m.line = lineOf(node, m.field)
		o.mistakes = append(o.mistakes, m)
	}
	if hasError(o.mistakes) {
		o.good = nil
	}
	return nil
}

func (o *object) identify(c *catalog, obj map[string]any) (k *kind, convert func(*draft), m *mistake) {
	apiVersion, _ := obj["apiVersion"].(string)
	kindName, _ := obj["kind"].(string)
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	if obj["apiVersion"] == nil && obj["kind"] == nil && obj["metadata"] == nil && obj["spec"] == nil {
		return nil, nil, &mistake{severity: report.Info, problem: "is ignored: it is not a Kubernetes object"}
	}
	if apiVersion == "" || kindName == "" {
		missing := "apiVersion"
		if kindName == "" {
			missing = "kind"
		}
		return nil, nil, new(wrong(missing, "is missing: this is not a Kubernetes object",
			"write apiVersion and kind, such as gateway.networking.k8s.io/v1 and HTTPRoute"))
	}
	k, convert, exact := c.find(apiVersion, kindName)
	o.ref = report.Ref{Group: groupOf(apiVersion), Kind: kindName, Namespace: namespace, Name: name}
	if k == nil || !exact && !likelyMeant(apiVersion, k) {
		return nil, nil, c.unreadKind(apiVersion, kindName)
	}
	o.ref.Group = k.table.Group()
	switch {
	case !k.table.Namespaced():
		o.ref.Namespace = ""
		delete(meta, "namespace")
	case namespace == "":
		o.ref.Namespace = metav1.NamespaceDefault
		if ns := meta["namespace"]; meta != nil && (ns == nil || ns == "") {
			meta["namespace"] = metav1.NamespaceDefault
		}
	}
	if !exact {
		problem := fmt.Sprintf("must be %s for kind %s, is %s", versionList(k), kindName, quote(apiVersion))
		return k, nil, new(wrong("apiVersion", problem, "write "+k.versions[0].apiVersion))
	}
	obj["apiVersion"] = k.versions[0].apiVersion
	return k, convert, o.checkNames(k)
}

func (o *object) checkNames(k *kind) *mistake {
	valid := validation.IsDNS1123Subdomain
	if k.table.Kind() == "Service" || k.table.Kind() == "Namespace" {
		valid = validation.IsDNS1123Label
	}
	switch {
	case o.ref.Name == "":
		return new(wrong("metadata.name", "is missing",
			"give the object a name of lower-case letters, digits and dashes"))
	case len(valid(o.ref.Name)) > 0:
		return new(wrong("metadata.name", "is not a valid name: "+quote(o.ref.Name),
			"use lower-case letters, digits and dashes, beginning and ending with a letter or digit"))
	case o.ref.Namespace != "" && len(validation.IsDNS1123Label(o.ref.Namespace)) > 0:
		return new(wrong("metadata.namespace", "is not a valid namespace name: "+quote(o.ref.Namespace),
			"use lower-case letters, digits and dashes"))
	}
	return nil
}

func (o *object) accept(ctx context.Context, c *catalog, k *kind, d *draft) ([]mistake, error) {
	s, err := c.schema[k]()
	if err != nil {
		return nil, err
	}
	if !k.status {
		delete(d.obj, "status")
	}
	trimMetadata(d.obj, k)
	var own []mistake
	if k.otherNames != nil {
		own = k.otherNames(d.obj)
	}
	s.complete(d.obj)
	unknown, errs, err := s.validate(ctx, d.obj)
	if err != nil {
		return nil, err
	}
	if len(unknown)+len(errs) > 0 && k.explain != nil {
		var explained []mistake
		explained, errs = k.explain(errs)
		own = append(own, explained...)
	}
	if len(unknown)+len(errs)+len(own) > 0 {
		return append(s.mistakes(unknown, errs), own...), nil
	}
	obj := k.table.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.obj, obj); err != nil {
		return []mistake{wrong("", "cannot be decoded: "+err.Error(), "")}, nil
	}
	var out []mistake
	if k.check != nil {
		out = k.check(obj)
	}
	if hasError(out) {
		return out, nil
	}
	o.good = &good{kind: k, obj: k.table.Pack(obj)}
	if k.lossy {
		if o.good.raw, err = json.Marshal(d.obj); err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
	}
	return out, nil
}

// clusterWrites are metadata fields that have a meaning only in a cluster, and are removed from
// documents. Exception: a Pod keeps deletionTimestamp, because such a Pod receives no new requests.
// creationTimestamp is kept, because the older of two conflicting objects takes precedence.
var clusterWrites = []string{"deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
	"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"}

func trimMetadata(obj map[string]any, k *kind) {
	meta, _ := obj["metadata"].(map[string]any)
	for _, key := range clusterWrites {
		if key != "deletionTimestamp" || k.table != store.Kind(store.Pods) {
			delete(meta, key)
		}
	}
	if a, ok := meta["annotations"].(map[string]any); ok {
		delete(a, "kubectl.kubernetes.io/last-applied-configuration")
	}
}

func written(moved []move, path string) string {
	best := move{}
	for _, m := range moved {
		if rest, ok := strings.CutPrefix(path, m.to); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') &&
			len(m.to) > len(best.to) {
			best = m
		}
	}
	return best.from + path[len(best.to):]
}

func hasError(list []mistake) bool {
	return slices.ContainsFunc(list, func(m mistake) bool { return m.severity == report.Error })
}
