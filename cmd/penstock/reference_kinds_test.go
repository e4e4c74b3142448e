package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

type conditionRow struct {
	Object  string // the kind, or a part such as "Gateway listener"
	Type    string
	Status  string
	Reason  string
	Meaning string
	Do      string // "" if the condition is no problem
}

type kindText struct {
	object     string
	purpose    string
	conditions []conditionRow
}

// kindTexts reads kinds.txt. It fails if the file and the reported conditions differ.
func kindTexts(t *testing.T) []*kindText {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(handWritten, "kinds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	condition := regexp.MustCompile(`^(\S+) (True|False|Unknown) (\w+)$`)
	var out []*kindText
	var all []conditionRow
	var last *kindText
	var text *string // the text that the next line continues
	_, sections, _ := strings.Cut(string(raw), "\n## ")
	for line := range strings.Lines("## " + sections) {
		line = strings.TrimRight(line, "\n")
		if object, found := strings.CutPrefix(line, "## "); found {
			last = &kindText{object: object}
			out, text = append(out, last), &last.purpose
			continue
		}
		if m := condition.FindStringSubmatch(line); m != nil {
			last.conditions = append(last.conditions,
				conditionRow{Object: last.object, Type: m[1], Status: m[2], Reason: m[3]})
			text = &last.conditions[len(last.conditions)-1].Meaning
			continue
		}
		line = strings.TrimSpace(line)
		if do, found := strings.CutPrefix(line, "-> "); found {
			line, text = do, &last.conditions[len(last.conditions)-1].Do
		}
		*text = strings.TrimSpace(*text + " " + line)
	}
	for _, text := range out {
		all = append(all, text.conditions...)
	}
	checkConditions(t, all)
	for _, row := range all {
		problem := status.Reasons(&status.Document{Objects: []status.Object{{Status: status.Status{
			Conditions: []metav1.Condition{
				{Type: row.Type, Status: metav1.ConditionStatus(row.Status), Reason: row.Reason},
			},
		}}}}) != nil
		if row.Meaning == "" || problem && !strings.HasSuffix(row.Do, ".") {
			t.Errorf("%s/kinds.txt: %s %s %s: got meaning %q and what to do %q, want sentences", handWritten,
				row.Object, row.Type, row.Reason, row.Meaning, row.Do)
		}
	}
	return out
}

// sharedPages maps kinds, and parts of kinds, to shared pages.
var sharedPages = map[string]string{
	"HTTPRoute": "routes", "GRPCRoute": "routes", "TLSRoute": "routes", "TCPRoute": "routes", "UDPRoute": "routes",
	"Route": "routes", "Gateway listener": "gateway", "InferencePoolImport cluster": "inferencepoolimport",
	"ReferenceGrant": "other-kinds", "Namespace": "other-kinds", "Service": "other-kinds",
	"ServiceImport": "other-kinds", "EndpointSlice": "other-kinds", "Pod": "other-kinds", "Secret": "other-kinds",
	"ConfigMap": "other-kinds", "EndpointPickerConfig": "other-kinds", "ClusterProperty": "other-kinds",
	"Every other object": "other-kinds",
}

var sharedTitles = map[string]string{"routes": "Routes", "other-kinds": "Other kinds"}

var conditionHeadings = map[string]string{"Gateway listener": "Conditions of a listener",
	"InferencePoolImport cluster": "Conditions of an exporting cluster",
	"Every other object":          "Conditions of every other object"}

func pageOf(object string) string {
	return cmp.Or(sharedPages[object], strings.ToLower(object)) + ".md"
}

func conditionsOf(object string) string {
	heading := cmp.Or(conditionHeadings[object], "Conditions")
	return "[" + object + "](" + pageOf(object) + "#" + anchors("# " + heading)[0] + ")"
}

type kind struct{ name, group, files, cluster, purpose string }

var groups = []string{"Gateway API", "Inference", "Penstock", "Kubernetes and clusters"}

func (k kind) heading() string {
	switch {
	case k.group == "gateway.networking.k8s.io":
		return groups[0]
	case strings.HasPrefix(k.group, "inference.") || k.group == "llm-d.ai":
		return groups[1]
	case k.group == "penstock.dev":
		return groups[2]
	}
	return groups[3]
}

func allKinds(t *testing.T, texts []*kindText, schemas map[string]ownSchema) []kind {
	t.Helper()
	fromFiles, fromCluster := fileVersions(t), clusterVersions(t)
	purposes := map[string]string{}
	for _, text := range texts {
		purposes[text.object] = text.purpose
	}
	var out []kind
	for _, k := range store.Tables() {
		name := k.Kind()
		schema, own := schemas[name]
		if len(fromFiles[name]) == 0 && !own { // Penstock itself writes this table
			continue
		}
		purpose := purposes[name]
		if own {
			purpose = schema.purpose(name)
		}
		if purpose == "" || own && purposes[name] != "" {
			t.Errorf("%s/kinds.txt: %s: got purpose %q; want one, unless its CRD has it", handWritten, name,
				purposes[name])
		}
		out = append(out, kind{name, cmp.Or(k.Group(), "core"), shortVersions(k.Group(), fromFiles[name]),
			strings.Join(fromCluster[name], ", "), strings.TrimSuffix(purpose, ".") + "."})
	}
	for name, schema := range schemas {
		if !slices.ContainsFunc(out, func(k kind) bool { return k.name == name }) {
			out = append(out, kind{name, schema.group, "", schema.version, schema.purpose(name)})
		}
	}
	for name, purpose := range purposes {
		if purpose != "" && !slices.ContainsFunc(out, func(k kind) bool { return k.name == name }) {
			t.Errorf("%s/kinds.txt has a purpose of %s, which is not read", handWritten, name)
		}
	}
	return out
}

func (r *reference) kinds(texts []*kindText) string {
	schemas := ownSchemas(r.T)
	all := allKinds(r.T, texts, schemas)
	if slices.ContainsFunc(all, func(k kind) bool { return k.name == "XBackendTrafficPolicy" }) {
		r.Errorf("%s/index.md names XBackendTrafficPolicy as a kind that is not read", handWritten)
	}
	rows, prose, rest, sources := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	titles, index := map[string]string{}, map[string]string{}
	for _, k := range all {
		page := strings.TrimSuffix(pageOf(k.name), ".md")
		rows[page] += fmt.Sprintf("| %s | %s | %s | %s |\n", k.name, k.group, k.files, k.cluster)
		link := page + ".md"
		if sharedTitles[page] != "" {
			prose[page] += "## " + k.name + "\n\n"
			link += "#" + strings.ToLower(k.name)
		}
		prose[page] += k.purpose + "\n\n"
		first, _, _ := strings.Cut(strings.TrimSuffix(k.purpose, "."), ". ")
		index[k.heading()] += fmt.Sprintf("| [%s](%s) | %s |\n", k.name, link, first)
		titles[page] = cmp.Or(sharedTitles[page], k.name)
		sources[page] = "cmd/penstock/" + handWritten + "/kinds.txt and the code"
	}
	for _, text := range texts {
		page := strings.TrimSuffix(pageOf(text.object), ".md")
		if len(text.conditions) > 0 {
			rest[page] += "\n## " + cmp.Or(conditionHeadings[text.object], "Conditions") + "\n\n" +
				conditionsTable(text.conditions)
		}
		if rows[page] == "" {
			r.Errorf("%s/kinds.txt: no kind has the page %s, of %s", handWritten, page, text.object)
		}
	}
	tables := &fieldTables{seen: map[string]string{}}
	// PoolExport's page links to fields of imports, so imports come first.
	for _, name := range slices.SortedFunc(maps.Keys(schemas), func(a, b string) int {
		return cmp.Or(cmp.Compare(schemas[a].group, schemas[b].group), cmp.Compare(a, b))
	}) {
		page := strings.TrimSuffix(pageOf(name), ".md")
		rest[page] += tables.sections(name, schemas[name].JSONSchemaProps)
		sources[page] = "the CRD, cmd/penstock/" + handWritten + "/kinds.txt and the code"
	}
	for page := range rows {
		r.page(page, sources[page], titles[page],
			table("Kind | API group | In files | In a cluster", rows[page])+"\n"+prose[page]+rest[page])
	}
	var b strings.Builder
	for _, heading := range groups {
		b.WriteString("\n### " + heading + "\n\n" + table("Kind | Purpose", index[heading]))
	}
	return b.String()
}

// conditionsTable renders conditions. A reason that needs a reaction is a link.
func conditionsTable(conditions []conditionRow) string {
	rows := ""
	for _, c := range conditions {
		reason := "`" + c.Reason + "`"
		if c.Do != "" {
			_, anchor, _ := strings.Cut(reasonPage(c.Reason), "#")
			reason = "[" + reason + "](findings.md#" + anchor + ")"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", c.Type, c.Status, reason, c.Meaning)
	}
	return table("Condition | Status | Reason | Meaning", rows)
}

func reasonsSection(texts []*kindText) string {
	byReason := map[string][]conditionRow{}
	for _, text := range texts {
		for _, row := range text.conditions {
			if row.Do != "" {
				byReason[row.Reason] = append(byReason[row.Reason], row)
			}
		}
	}
	var b strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(&b, "### %s\n\n", reason)
		var order []string // reactions, in the order of the rows
		objects := map[string][]string{}
		for _, row := range byReason[reason] {
			if objects[row.Do] == nil {
				order = append(order, row.Do)
			}
			if object := conditionsOf(row.Object) + " `" + row.Type + "`"; !slices.Contains(objects[row.Do], object) {
				objects[row.Do] = append(objects[row.Do], object)
			}
		}
		for _, do := range order {
			fmt.Fprintf(&b, "- %s: %s\n", strings.Join(objects[do], ", "), do)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestReference_StatusNamesPages(t *testing.T) {
	problem := []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "NoMatchingParent"}}
	well := []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"},
		{Type: "Conflicted", Status: metav1.ConditionFalse, Reason: "NoConflicts"}}
	route := status.Object{Ref: report.Ref{Kind: "HTTPRoute", Name: "r"},
		Status: status.Status{Parents: []status.Parent{{Conditions: problem}}}}
	gateway := status.Object{Ref: report.Ref{Kind: "Gateway", Name: "gw"},
		Status: status.Status{Conditions: well, Listeners: []status.Listener{{Conditions: well}}}}
	finding := func(severity report.Severity, kind, field string) report.Finding {
		return report.Finding{Severity: severity, Owner: report.Ref{Kind: kind, Name: "x"}, Field: field}
	}
	doc := &status.Document{Objects: []status.Object{gateway, route}, Findings: []report.Finding{
		finding(report.Error, "Gateway", "spec.listeners[1].tls.certificateRefs[0]"),
		finding(report.Warning, "Gateway", "spec.listeners[0].tls.mode"),
		finding(report.Warning, "Gateway", "spec.addresses[0]"), finding(report.Info, "ModelServers", "spec"),
		finding(report.Warning, "Teapot", "spec"),
	}}
	var out strings.Builder
	printPages(&out, doc)
	want := "\nWhat to do about NoMatchingParent: docs/reference/findings.md#nomatchingparent\n" +
		"Pages about these findings: docs/https.md, docs/reference/gateway.md, docs/reference/findings.md#findings\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	if printPages(&out, &status.Document{Objects: []status.Object{gateway}}); out.Len() > 0 {
		t.Errorf("got %q without a problem, want nothing", out.String())
	}
}
