package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

// shortVersions omits the API group if it is the kind's own.
func shortVersions(group string, apiVersions []string) string {
	var out []string
	for _, v := range apiVersions {
		if short, own := strings.CutPrefix(v, group+"/"); own || group == "" {
			out = append(out, short)
		} else {
			g, short, _ := strings.Cut(v, "/")
			out = append(out, short+" of "+g)
		}
	}
	return strings.Join(out, ", ")
}

// fileVersions returns the apiVersions that files may have: for others, translate has a finding.
func fileVersions(t *testing.T) map[string][]string {
	t.Helper()
	candidates := map[string][]string{}
	var text strings.Builder
	for _, k := range store.Tables() {
		groups := []string{k.Group()}
		if k.Kind() == "InferencePool" {
			groups = append(groups, "inference.networking.x-k8s.io")
		}
		for _, g := range groups {
			for _, v := range []string{"v1", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"} {
				apiVersion := strings.TrimPrefix(g+"/"+v, "/")
				fmt.Fprintf(&text, "apiVersion: %s\nkind: %s\nmetadata: {name: n%d}\n---\n", apiVersion, k.Kind(),
					len(candidates[k.Kind()]))
				candidates[k.Kind()] = append(candidates[k.Kind()], apiVersion)
			}
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var doc status.Document
	if err := json.Unmarshal([]byte(run(t, dir, "translate", "--status", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	unread := map[string]bool{}
	for _, f := range doc.Findings {
		if f.Field == "apiVersion" || f.Field == "kind" || strings.Contains(f.Problem, "kind "+f.Owner.Kind+" of ") {
			unread[f.Owner.Kind+" "+f.Owner.Name] = true
		}
	}
	out := map[string][]string{}
	for kind, versions := range candidates {
		for i, v := range versions {
			if !unread[fmt.Sprintf("%s n%d", kind, i)] {
				out[kind] = append(out[kind], v)
			}
		}
	}
	return out
}

// clusterVersions returns the versions watched in a cluster, which stand beside the kind's plural
// in discovery's source code.
func clusterVersions(t *testing.T) map[string][]string {
	t.Helper()
	isVersion := regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	byPlural := map[string][]string{}
	for dir, files := range packages(t) {
		if dir = filepath.ToSlash(dir); !below(dir, "discovery") || below(dir, "discovery/file") {
			continue
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				var elements []ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					elements = n.Args
				case *ast.CompositeLit:
					elements = n.Elts
				}
				plural, versions := "", []string(nil)
				for _, e := range elements {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						e = kv.Value
					}
					list := []ast.Expr{e}
					if lit, ok := e.(*ast.CompositeLit); ok {
						list = lit.Elts
					}
					for _, e := range list {
						if s := stringOf(e); isVersion.MatchString(s) {
							versions = append(versions, s)
						} else if s != "" && plural == "" {
							plural = s
						}
					}
				}
				if plural != "" && len(versions) > 0 {
					for _, v := range versions {
						if !slices.Contains(byPlural[plural], v) {
							byPlural[plural] = append(byPlural[plural], v)
						}
					}
				}
				return true
			})
		}
	}
	out := map[string][]string{}
	for _, k := range store.Tables() {
		lower := strings.ToLower(k.Kind())
		for _, plural := range []string{lower, lower + "s", lower + "es", strings.TrimSuffix(lower, "y") + "ies"} {
			if versions := byPlural[plural]; versions != nil {
				slices.SortFunc(versions, func(a, b string) int {
					return cmp.Or(cmp.Compare(len(a), len(b)), -cmp.Compare(a, b))
				})
				out[k.Kind()] = versions
			}
		}
	}
	return out
}

type ownSchema struct {
	group, version string
	*apiextensionsv1.JSONSchemaProps
}

// purpose returns the schema's description without the kind's name.
func (s ownSchema) purpose(kind string) string {
	text := strings.TrimPrefix(strings.TrimPrefix(oneLine(s.Description), kind+" "), "is ")
	return strings.ToUpper(text[:1]) + text[1:]
}

func ownSchemas(t *testing.T) map[string]ownSchema {
	t.Helper()
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]ownSchema{}
	for _, f := range files {
		if f.Group != "penstock.dev" && f.Plural != "inferencepoolimports" {
			continue
		}
		crd, err := manifests.CRD(f.Group, f.Plural)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			out[crd.Spec.Names.Kind] = ownSchema{f.Group, v.Name, v.Schema.OpenAPIV3Schema}
		}
	}
	return out
}

var upstreamTypes = []string{"controllers", "imagePullSecrets", "resources", "tolerations", "topologySpreadConstraints"}

// fieldTables writes tables of fields. A repeated field or long description becomes a link.
type fieldTables struct {
	kind string
	rows strings.Builder
	seen map[string]string // a field's JSON, or a kind and description -> first place
}

// longText is the length in bytes from which a repeated description becomes a link.
const longText = 150

func (f *fieldTables) sections(kind string, schema *apiextensionsv1.JSONSchemaProps) string {
	f.kind = kind
	var b strings.Builder
	for _, top := range []string{"spec", "status"} {
		p, ok := schema.Properties[top]
		if !ok {
			continue
		}
		f.rows.Reset()
		f.write(top, p, false)
		if f.rows.Len() > 0 {
			b.WriteString("\n## " + strings.ToUpper(top[:1]) + top[1:] + "\n\n" +
				table("Field | Type | Default and limits | Description", f.rows.String()))
		}
	}
	var rows strings.Builder
	rules(&rows, "", *schema)
	if rows.Len() > 0 {
		b.WriteString("\n## Rules\n\n" + table("Field | Rule", rows.String()))
	}
	return b.String()
}

// write adds a row for each field below a property. upstream shortens descriptions to the first
// sentence.
func (f *fieldTables) write(path string, p apiextensionsv1.JSONSchemaProps, upstream bool) {
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		child := p.Properties[name]
		at, typ := path+"."+name, child.Type
		limits := limitsOf(child, slices.Contains(p.Required, name))
		inner := child
		for inner.Type == "array" && inner.Items != nil && inner.Items.Schema != nil {
			at += "[]"
			inner = *inner.Items.Schema
			typ = "list of " + inner.Type
			if l := limitsOf(inner, false); l != "" {
				limits = strings.TrimPrefix(limits+"; each: "+l, "; ")
			}
		}
		if name == "conditions" {
			typ = "list of Condition"
		}
		if child.XIntOrString || inner.XIntOrString {
			typ = "integer or string"
		}
		if inner.AdditionalProperties != nil && inner.AdditionalProperties.Schema != nil {
			value := inner.AdditionalProperties.Schema
			typ = "map of " + cmp.Or(value.Type, "any value")
			if value.XIntOrString {
				typ = "map of quantity"
			}
		}
		description := oneLine(child.Description)
		if upstream {
			if first, _, more := strings.Cut(description, ". "); more {
				description = first + "."
			}
		}
		if before := f.before(f.kind+description, at); before != "" && len(description) >= longText {
			description = "As " + before + "."
		}
		first := ""
		if name != "conditions" && len(inner.Properties) > 0 {
			raw, err := json.Marshal(inner.Properties)
			if err != nil {
				panic(err) // a value read from JSON can be encoded
			}
			if len(raw) >= longText {
				first = f.before(string(raw), at)
			}
		}
		if first != "" {
			description += " Its fields are as in " + first + "."
		}
		fmt.Fprintf(&f.rows, "| `%s` | %s | %s | %s |\n", at, typ, limits, description)
		if name != "conditions" && first == "" {
			f.write(at, inner, upstream || slices.Contains(upstreamTypes, name))
		}
	}
}

// before returns a text's first place; "" for a new text, whose place is path.
func (f *fieldTables) before(text, path string) string {
	place := "`" + path + "`"
	if first := f.seen[text]; first != "" {
		kind, field, _ := strings.Cut(first, " ")
		if kind == f.kind {
			return field
		}
		return field + " of [" + kind + "](" + pageOf(kind) + ")"
	}
	f.seen[text] = f.kind + " " + place
	return ""
}

func limitsOf(p apiextensionsv1.JSONSchemaProps, required bool) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if required {
		add("required")
	}
	if p.Default != nil && string(p.Default.Raw) != `""` {
		add("default `%s`", strings.Trim(string(p.Default.Raw), `"`))
	}
	if len(p.Enum) > 0 {
		var values []string
		for _, v := range p.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		add("one of %s", strings.Join(values, ", "))
	}
	switch {
	case p.Minimum != nil && p.Maximum != nil:
		add("%v to %v", int64(*p.Minimum), int64(*p.Maximum))
	case p.Minimum != nil:
		add("at least %v", int64(*p.Minimum))
	case p.Maximum != nil:
		add("at most %v", int64(*p.Maximum))
	}
	if p.MaxLength != nil {
		add("at most %d characters", *p.MaxLength)
	}
	if p.MaxItems != nil {
		add("at most %d items", *p.MaxItems)
	}
	return strings.Join(out, "; ")
}

func rules(b *strings.Builder, path string, p apiextensionsv1.JSONSchemaProps) {
	for _, r := range p.XValidations {
		if r.Message != "" {
			fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimPrefix(path, "."), oneLine(r.Message))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		rules(b, path+"."+name, p.Properties[name])
	}
	if p.Items != nil && p.Items.Schema != nil {
		rules(b, path+"[]", *p.Items.Schema)
	}
}

// oneLine escapes a description for a table's cell.
func oneLine(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(s), " "))
}
