package main

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func missingImport(r *run) {
	gw := r.enter()
	gw.route("missing")
	r.until("HTTPRoute llm: condition ResolvedRefs", func() error {
		u, err := gw.in(routes).Get(r, "llm", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, p := range list(u.Object, "status", "parents") {
			return condition(p, "ResolvedRefs", "False", "BackendNotFound")
		}
		return fmt.Errorf("status.parents is empty, want the Gateway")
	})
	gw.answers(http.StatusInternalServerError, "")
}

func emptyImport(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm")
	gw.route("llm")
	r.until("an import without clusters answers with an error of the server", func() error {
		got, err := gw.ask(completions, chat)
		if err == nil && got.status < http.StatusInternalServerError {
			err = fmt.Errorf("it answers %d, want 500 or above", got.status)
		}
		return err
	})
	gw.write("llm", one.entry())
	gw.answers(http.StatusOK, "one")
}

func gatewayIsAParent(r *run) {
	const other = "example.com/other-controller"
	gw := r.enter()
	made := gw.create(
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: llm}\n")
	gw.writeOther(r, made, other)
	gw.route("llm")
	gw.imported("llm", func(u *unstructured.Unstructured) error { return parents(u, other, true) })
	gw.remove(routes, "llm")
	gw.imported("llm", func(u *unstructured.Unstructured) error { return parents(u, other, false) })
}

// parents checks that the entry of the controller other is unchanged, and that Gateway gw is a
// parent of the import exactly if want is true.
func parents(u *unstructured.Unstructured, other string, want bool) error {
	found, kept := false, false
	for _, c := range list(u.Object, "status", "controllers") {
		if c["name"] == other {
			kept = len(list(c, "exportingClusters")) == 1 && len(list(c, "parents")) == 0
			continue
		}
		for _, p := range list(c, "parents") {
			ref, _, _ := unstructured.NestedMap(p, "parentRef")
			found = found || ref["name"] == "gw"
		}
	}
	if !kept {
		return fmt.Errorf("the entry of %s is gone or has changed: %v", other, u.Object["status"])
	}
	if found != want {
		return fmt.Errorf("the parents have Gateway gw: %t, want %t; status %v", found, want, u.Object["status"])
	}
	return nil
}
