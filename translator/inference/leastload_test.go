package inference_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

func leastLoad(more string) string {
	return `
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, selection: {policy: LeastLoad` + more + `}}
`
}

func TestLeastLoad_PickerChoosesAmongTheClusters(t *testing.T) {
	_, imp := imported(t, llmImport+westHost+leastLoad(""))
	if c := imp.Choice; c == nil || c.Margin != 100*time.Millisecond || c.Picker.Pool.String() != "default/llm@" ||
		c.Picker.Cluster != model.OurPicker || c.Picker.Body != model.BodyBuffered {
		t.Fatalf("got %+v, want a margin of 100ms, and our picker, which reads bodies", c)
	}
	_, imp = imported(t, llmImport+westHost+leastLoad(", affinity: None, localMargin: 2s"))
	if c := imp.Choice; c == nil || c.Margin != 2*time.Second || c.Picker.Body != model.BodyNone {
		t.Fatalf("got %+v, want a margin of 2s, and no bodies read", c)
	}
	for _, policy := range []string{"LeastLoad", "Latency"} {
		_, with := imported(t, llmImport+westHost+
			strings.Replace(leastLoad(", affinity: Session"), "LeastLoad", policy, 1))
		if c := with.Choice; c == nil || !c.Sessions || !c.Picker.Served || c.Picker.Body != model.BodyNone {
			t.Errorf("%s with affinity Session: got %+v, want sessions without bodies", policy, c)
		}
	}
	if imp.Choice.Sessions || imp.Choice.Picker.Served {
		t.Error("sessions are kept without affinity Session")
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"spec.selection.localMargin: it has no effect: InferencePoolImport default/llm does not include this cluster") {
		t.Errorf("findings: got %s, want that localMargin has no effect", text)
	}
	if _, imp = imported(t, llmImport+leastLoad("")); imp.Choice != nil {
		t.Errorf("of an import with one cluster: got %+v, want no choice", imp.Choice)
	}
}

// Only the import's own policy, with session affinity, configures sessions. Otherwise a finding
// must report that the field has no effect.
func TestSession_PolicyOfTheImportSetsCookieAndTTL(t *testing.T) {
	with := func(selection string) string {
		return strings.Replace(leastLoad(selection), "targetRef:",
			"picker: {session: {ttlSeconds: 60, cookieName: sid}}, targetRef:", 1)
	}
	_, imp := imported(t, llmImport+westHost+with(", affinity: Session"))
	if c := imp.Choice; c == nil || !c.Sessions || c.SessionTTL != 60 || c.SessionCookie != "sid" {
		t.Errorf("got %+v, want sessions of 60 s by cookie sid", c)
	}
	if text := texts(imp.Findings); strings.Contains(text, "spec.picker") {
		t.Errorf("findings: got %s, want none of spec.picker", text)
	}
	_, imp = imported(t, llmImport+westHost+with(""))
	if text := texts(imp.Findings); imp.Choice.SessionTTL != 0 || imp.Choice.SessionCookie != "" ||
		!strings.Contains(text, "spec.picker.session: it has no effect") {
		t.Errorf("without affinity: got %+v, findings %s; want no session, and that it has no effect", imp.Choice, text)
	}
	_, imp = imported(t, llmImport+westHost+leastLoad(", affinity: Session")+
		strings.Replace(strings.Replace(with(", affinity: Session"), "name: p", "name: one", 1), "name: llm",
			"name: llm-east", 1))
	if text := texts(imp.Findings); imp.Choice.SessionTTL != 0 ||
		!strings.Contains(text, "spec.picker.session: it has no effect") {
		t.Errorf("of a policy for one cluster: got %+v, findings %s; want no session, and that it has no effect",
			imp.Choice, text)
	}
}

// The import's policy makes the picker find the cluster of a stored response. If the field has no
// effect, or finds no server within a cluster, a finding must report it.
func TestResponseAffinity_PolicyOfTheImportFindsTheCluster(t *testing.T) {
	with := func(policy string) string {
		return strings.Replace(policy, "targetRef:", "picker: {responseAffinity: true}, targetRef:", 1)
	}
	const useless = "spec.picker.responseAffinity: it has no effect"
	for _, selection := range []string{"", ", affinity: None", ", affinity: Session"} {
		_, imp := imported(t, llmImport+westHost+with(leastLoad(selection)))
		c := imp.Choice
		if !c.Picker.ResponseIDs || c.Picker.Body != model.BodyBuffered || c.Blind != (selection != "") {
			t.Errorf("%s: got %+v, want response IDs from bodies, blind: %t", selection, c, selection != "")
		}
		text := texts(imp.Findings)
		if strings.Contains(text, useless) || !strings.Contains(text, "it finds the cluster of a response") {
			t.Errorf("%s: findings %s, want that it finds the cluster of a response", selection, text)
		}
	}
	weighted := strings.Replace(with(leastLoad("")), "LeastLoad", "Weighted", 1)
	_, imp := imported(t, llmImport+westHost+weighted)
	if text := texts(imp.Findings); !strings.Contains(text, useless) {
		t.Errorf("without a choice: findings %s, want a text with %q", text, useless)
	}
}

func TestLatency_PickerChoosesWithoutReadingBodies(t *testing.T) {
	_, imp := imported(t, llmImport+westHost+strings.Replace(leastLoad(", localMargin: 0s"), "LeastLoad", "Latency", 1))
	if c := imp.Choice; c == nil || !c.Latency || c.Margin != 0 || c.Picker.Body != model.BodyNone ||
		c.Picker.Cluster != model.OurPicker {
		t.Fatalf("got %+v, want Latency without a margin, by our picker, which reads no bodies", c)
	}
	if _, imp = imported(t, llmImport+westHost+leastLoad("")); imp.Choice.Latency {
		t.Error("LeastLoad goes by latency")
	}
}
