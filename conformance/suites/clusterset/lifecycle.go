package main

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (r *run) exported() (from *member) {
	r.everywhere()
	from = r.exporter()
	from.export("llm")
	for _, m := range r.importers() {
		m.imported("llm", r.exportedBy(from.name))
	}
	return from
}

func withdrawalCollectsImport(r *run) {
	r.exported().annotate("llm", false)
	for _, m := range r.importers() {
		m.collected("llm")
	}
}

func deletionCollectsImport(r *run) {
	r.exported().remove(pools, "llm")
	for _, m := range r.importers() {
		m.collected("llm")
	}
}

func exportAgain(r *run) {
	r.everywhere()
	from := r.exporter()
	from.export("llm")
	from.becomes("llm", "True")
	from.annotate("llm", false)
	from.becomes("llm", "")
	from.annotate("llm", true)
	for _, m := range r.importers() {
		m.imported("llm", r.exportedBy(from.name))
	}
	from.becomes("llm", "True")
}

func twoExporters(r *run) {
	r.everywhere()
	one, two := r.members[0], r.members[1]
	one.export("llm")
	two.export("llm")
	for _, m := range r.members[2:] {
		m.imported("llm", r.exportedBy(one.name), r.exportedBy(two.name))
	}
	two.annotate("llm", false)
	for _, m := range r.members[2:] {
		m.imported("llm", r.exportedBy(one.name), r.notExportedBy(two.name))
	}
}

func mutualExporters(r *run) {
	r.everywhere()
	one, two := r.members[0], r.members[1]
	one.export("llm")
	two.imported("llm", r.exportedBy(one.name))
	two.export("llm")
	one.imported("llm", r.exportedBy(two.name))
	two.imported("llm", r.exportedBy(one.name))
}

func (r *run) elsewhere() (last *member) {
	for _, m := range r.members[:len(r.members)-1] {
		m.settle()
	}
	return r.members[len(r.members)-1]
}

func missingNamespace(r *run) {
	last := r.elsewhere()
	r.exporter().export("llm")
	r.exporter().becomes("llm", "False", last.name)
	if _, err := last.client.Resource(namespaces).Get(r, last.namespace,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		r.fail("cluster %s: the namespace was created, or cannot be read: %v", last.name, err)
	}
}

func laterNamespace(r *run) {
	last := r.elsewhere()
	from := r.exporter()
	from.export("llm")
	r.until("the condition Exported", func() error {
		if from.exportedIs("llm", "True") == nil {
			return fmt.Errorf("it is True, want it otherwise while cluster %s lacks the namespace", last.name)
		}
		return from.exportedIs("llm", "False")
	})
	last.settle()
	last.imported("llm", r.exportedBy(from.name))
	from.becomes("llm", "True")
}

func importOfAnother(r *run) {
	r.everywhere()
	from, to := r.exporter(), r.importers()[0]
	const other = "example.com/other-controller"
	made := to.create(
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: llm, " +
			"labels: {made-by: hand}}\n")
	to.writeOther(r, made, other)
	kept := func(u *unstructured.Unstructured) error {
		if u.GetLabels()["made-by"] != "hand" || u.GetUID() != made.GetUID() {
			return fmt.Errorf("got the labels %v, want the same object, made by hand", u.GetLabels())
		}
		for _, c := range list(u.Object, "status", "controllers") {
			if c["name"] == other && len(list(c, "exportingClusters")) == 1 {
				return nil
			}
		}
		return fmt.Errorf("status: got %[2]v, want the entry of %[1]s", other, u.Object["status"])
	}
	from.export("llm")
	to.imported("llm", r.exportedBy(from.name), kept)
	from.annotate("llm", false)
	to.imported("llm", r.notExportedBy(from.name), kept)
}

func (m *member) writeOther(r *run, made *unstructured.Unstructured, controller string) {
	made.Object["status"] = map[string]any{
		"controllers": []any{
			map[string]any{"name": controller, "exportingClusters": []any{map[string]any{"name": "elsewhere"}}},
		},
	}
	if _, err := m.in(imports).UpdateStatus(r, made, metav1.UpdateOptions{}); err != nil {
		r.fail("cluster %s: write the entry of another controller: %w", m.name, err)
	}
}

func deletedImportReturns(r *run) {
	r.everywhere()
	from, to := r.exporter(), r.importers()[0]
	from.export("llm")
	to.imported("llm", r.exportedBy(from.name))
	to.remove(imports, "llm")
	to.imported("llm", r.exportedBy(from.name))
}
