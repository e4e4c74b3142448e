package status_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

const gatewayGroup = "gateway.networking.k8s.io"

var (
	gw    = report.Ref{Group: gatewayGroup, Kind: "Gateway", Namespace: "default", Name: "gw"}
	chat  = report.Ref{Group: gatewayGroup, Kind: "HTTPRoute", Namespace: "default", Name: "chat"}
	admin = report.Ref{Group: gatewayGroup, Kind: "HTTPRoute", Namespace: "ops", Name: "admin"}
	tls   = report.Ref{Group: gatewayGroup, Kind: "BackendTLSPolicy", Namespace: "default", Name: "llm"}
	pool  = report.Ref{Group: "inference.networking.k8s.io", Kind: "InferencePool", Namespace: "default", Name: "llm"}
)

func cond(typ, st, reason, message string) report.Condition {
	return report.Condition{Type: typ, Status: st, Reason: reason, Message: message}
}

func parent(name, section string, conditions ...report.Condition) report.Parent {
	return report.Parent{
		Ref: report.ParentRef{Group: gatewayGroup, Kind: "Gateway", Namespace: "default", Name: name,
			SectionName: section}, Conditions: conditions,
	}
}

func fleet() *status.Board {
	b := status.NewBoard(func(o report.Ref, field string) string {
		if o == chat && field == "spec.rules[0].backendRefs[0]" {
			return "routes.yaml:12"
		}
		return ""
	})
	b.Set(status.Translation,
		report.Report{Owner: gw, Conditions: []report.Condition{
			cond("Accepted", "True", "Accepted", ""), cond("Programmed", "True", "Programmed", ""),
		},
			Listeners: []report.Listener{
				{Name: "http", SupportedKinds: []report.Ref{{Group: gatewayGroup, Kind: "HTTPRoute"}},
					AttachedRoutes: 2, Conditions: []report.Condition{
						cond("Accepted", "True", "Accepted", ""), cond("Conflicted", "False", "NoConflicts", ""),
					}},
				{
					Name: "https", Conditions: []report.Condition{
						cond("Accepted", "True", "Accepted", ""),
						cond("ResolvedRefs", "False", "InvalidCertificateRef", "Secret default/cert does not exist"),
					},
				},
			}},
		report.Report{
			Owner: admin, Parents: []report.Parent{
				parent("gw", "http", cond("Accepted", "True", "Accepted", ""),
					cond("ResolvedRefs", "True", "ResolvedRefs", "")),
			},
		},
		report.Report{Owner: chat, Parents: []report.Parent{
			parent("gw", "", cond("Accepted", "True", "Accepted", ""),
				cond("ResolvedRefs", "False", "BackendNotFound", "InferencePool default/llama does not exist")),
		},
			Findings: []report.Finding{
				{Severity: report.Error, Owner: chat, Field: "spec.rules[0].backendRefs[0]",
					Problem: "names a pool that does not exist", Fix: "write llm"},
			}},
		report.Report{
			Owner: pool, Parents: []report.Parent{parent("gw", "", cond("Accepted", "True", "Accepted", ""))},
		},
		report.Report{
			Owner: tls,
			Parents: []report.Parent{
				parent("gw", "",
					cond("Accepted", "False", "NoValidCACertificate", "ConfigMap default/ca does not exist")),
			},
		},
	)
	b.Set(status.Supervisor, report.Report{Owner: gw, Addresses: []string{"127.0.0.1"}})
	b.Replace(status.Files, report.Report{Findings: []report.Finding{
		{Severity: report.Info, Source: "deploy.yaml:1",
			Problem: "Deployment (apps/v1) is nothing that Penstock reads"},
		{Severity: report.Error, Source: "broken.yaml:4", Problem: "is not YAML"},
	}})
	return b
}

var start = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestStatus_GoldenTextAndJSON(t *testing.T) {
	doc := status.NewDocument(fleet().List(nil), "penstock.dev/gateway-controller", nil, start)
	var text bytes.Buffer
	if err := status.Text(&text, doc, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.txt", text.Bytes())
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", append(raw, '\n'))
}

// A policy's status must have ancestors, as on Kubernetes: the Gateways that it affects.
func TestStatus_PoliciesHaveAncestors(t *testing.T) {
	for _, kind := range []string{"BackendTLSPolicy", "AccessPolicy"} {
		policy := report.Report{Owner: report.Ref{Kind: kind, Namespace: "default", Name: "p"},
			Parents: []report.Parent{parent("gw", "", cond("Accepted", "True", "Accepted", ""))}}
		doc := status.NewDocument([]report.Report{policy}, "c", nil, start)
		if s := doc.Objects[0].Status; len(s.Ancestors) != 1 || len(s.Parents) > 0 {
			t.Errorf("%s: got %+v, want one ancestor and no parents", kind, s)
		}
	}
}

func TestStatus_TextOfAnEmptyDocument(t *testing.T) {
	var text bytes.Buffer
	if err := status.Text(&text, status.NewDocument(nil, "c", nil, start), nil); err != nil || text.Len() == 0 {
		t.Errorf("got %q, %v; want a text", text.String(), err)
	}
}

func TestStatusFile_TransitionTimeMovesOnlyWithItsStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", status.FileName)
	b := fleet()
	now := start
	write := func() *status.Document {
		t.Helper()
		// A new Writer, as after a restart.
		w, err := status.NewWriter(status.WriterConfig{
			Board: b, Path: path, Controller: "c", Now: func() time.Time { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(); err != nil {
			t.Fatal(err)
		}
		doc, err := status.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	times := func(doc *status.Document) (accepted, resolved time.Time) {
		for _, o := range doc.Objects {
			if o.Ref == chat {
				c := o.Status.Parents[0].Conditions
				return c[0].LastTransitionTime.UTC(), c[1].LastTransitionTime.UTC()
			}
		}
		t.Fatal("no status of the route")
		return
	}
	write()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	now = start.Add(time.Hour)
	write()
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Error("an unchanged file was written again")
	}
	b.Set(status.Translation,
		report.Report{
			Owner: chat, Parents: []report.Parent{
				parent("gw", "", cond("Accepted", "True", "Accepted", "other words"),
					cond("ResolvedRefs", "True", "ResolvedRefs", "")),
			},
		})
	accepted, resolved := times(write())
	if !accepted.Equal(start) || !resolved.Equal(now) {
		t.Errorf("Accepted since %v, ResolvedRefs since %v; want %v and %v", accepted, resolved, start, now)
	}
}

func TestStatusFile_FollowsTheBoardAndIsCompleteAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), status.FileName)
	synctest.Test(t, func(t *testing.T) {
		b := fleet()
		w, err := status.NewWriter(status.WriterConfig{Board: b, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		contains := func(text string) bool {
			raw, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(raw), text)
		}
		set := func(text string) {
			b.Set(status.Translation, report.Report{
				Owner: pool, Conditions: []report.Condition{cond("Accepted", "False", "X", text)},
			})
		}
		synctest.Wait()
		set("first")
		time.Sleep(time.Second) // virtual time
		synctest.Wait()
		if !contains("first") {
			t.Error("the file does not follow the board")
		}
		set("last")
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !contains("last") {
			t.Error("the last change is missing at the end")
		}
	})
}
