package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sleeps lists what sleeps in real time, and why. To wait for a condition, tests use
// xds/xdstest/poll, and programs use conformance/lab/retry.
var sleeps = map[string]string{
	"xds/xdstest/poll/poll.go Within": "the interval of the polling helper",

	// Slow servers, pickers and disks.
	"conformance/bench/ended.go endedServer":                                              "a server computes",
	"conformance/features/killed_test.go TestKilled_AttemptThatTakesTooLongIsNotRepeated": "a server computes",
	"conformance/features/long_test.go TestLong_RequestsOfAMinuteAreServed":               "a server computes",
	"conformance/features/relay_test.go TestRelay_PickerThatMovesLosesNoRequest":          "a slow health check",
	"conformance/features/rig_cluster_test.go ServeHTTP":                                  "a server computes",
	"conformance/features/streamerror_test.go TestStreamError_ServerWhoseStreamsFailAtOnceAttractsNone": "a server " +
		"computes",
	"picker/objective_test.go TestSLO_ThroughEnvoy":                         "a server computes",
	"picker/relay_changes_test.go Process":                                  "a picker computes",
	"picker/relay_test.go Process":                                          "a picker computes",
	"picker/stages_test.go TestStages_RecordHasTheStagesThatAPickHasPassed": "a body arrives",

	// Clients, publishers and attackers that send at a pace.
	"conformance/features/udp_test.go TestUDPRoute_DatagramsOfManyAddressesEndNothingElse": "datagrams at a pace",
	"conformance/features/udp_test.go steady":                                              "datagrams at a pace",
	"conformance/promises/attacks/kveventsparts_test.go floods":                            "events at a pace",
	"conformance/promises/attacks/kveventsparts_test.go wireAttacks":                       "bytes at a pace",
	"conformance/promises/attacks/models_test.go hostileLists":                             "bytes at a pace",
	"conformance/promises/attacks/pages_test.go hostilePages":                              "bytes at a pace",
	"conformance/promises/attacks/loadstat_test.go honestLoads":                            "loads at a pace",
	"conformance/promises/attacks/loadstat_test.go loadAttacks":                            "loads at a pace",
	"conformance/promises/members/data_test.go send":                                       "requests at a pace",
	"conformance/promises/principals/servercells_test.go publish":                          "events at a pace",
	"conformance/promises/zeroloss/folder.go update":                                       "changes at a pace",
	"xds/fleet/drain/drain_test.go TestDrain_WaitsWhileDatagramsCome":                      "datagrams at a pace",

	// The sleep is part of what a measurement or a fault means.
	"conformance/bench/deadpool.go deadPoolTurn":            "probes before the fault, and traffic beside it",
	"conformance/bench/ended.go elsewhere":                  "a pool without requests for a while",
	"conformance/bench/picks.go costs":                      "CPU after the last request belongs to it",
	"conformance/promises/faults_test.go apiServerAway":     "an API server is away for a minute",
	"conformance/promises/attacks/confine_test.go allocate": "a process that the test ends",

	// gRPC does not report when these have happened.
	"cmd/penstock/internal/app/stop.go servePicks": "the last answers are written",
	"picker/socket/conn_linux.go received":         "handlers read what has arrived before the end",

	// Their callers run them on the clock of testing/synctest.
	"multicluster/imports/since_test.go TestImports_HiddenExportIsAsOldAsItsFirstOffer": "virtual time",
	"picker/endpoint/shared_internal_test.go processes":                                 "virtual time",
	"picker/flow/flow_test.go admitted":                                                 "virtual time",
}

// bubbles matches functions that run their argument in a testing/synctest bubble, on virtual time.
var bubbles = regexp.MustCompile(`^(synctest\.Test|bubble|inBubbles)$`)

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return ""
}

// sleeping returns where a declaration calls time.Sleep, or receives from time.After outside a
// select.
func sleeping(d ast.Decl) (found []token.Pos) {
	cases := map[ast.Node]bool{}
	virtual := false
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			if n.Comm != nil { // nil is the default case
				ast.Inspect(n.Comm, func(m ast.Node) bool { cases[m] = true; return true })
			}
		case *ast.CallExpr:
			virtual = virtual || called(n) == "synctest.Wait" // Wait panics outside a bubble
		}
		return true
	})
	if virtual {
		return nil
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if bubbles.MatchString(called(n)) {
				return false
			}
			if called(n) == "time.Sleep" {
				found = append(found, n.Pos())
			}
		case *ast.UnaryExpr:
			call, ok := n.X.(*ast.CallExpr)
			if ok && n.Op == token.ARROW && called(call) == "time.After" && !cases[n] {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// A test that sleeps instead of waiting for a condition is slow on a fast machine, and fails on a
// slow one.
func TestLayout_SleepsSimulateTime(t *testing.T) {
	unused := maps.Clone(sleeps)
	goSources(t, func(rel, text string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, rel, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			name := rel + " " + declared(d)
			for _, at := range sleeping(d) {
				if delete(unused, name); sleeps[name] == "" {
					t.Errorf("%s sleeps at line %d: wait by xds/xdstest/poll; list it here if it simulates time",
						name, fset.Position(at).Line)
				}
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("the sleep of %s is not needed", name)
	}
}

func TestLayout_SleepsAreFound(t *testing.T) {
	for body, want := range map[string]int{
		"time.Sleep(1)":   1,
		"<-time.After(1)": 1,
		"select { case <-time.After(1): default: }":              0,
		"select { case <-c: <-time.After(1) }":                   1,
		"synctest.Test(t, func(t *testing.T) { time.Sleep(1) })": 0,
		"time.Sleep(1); synctest.Wait()":                         0,
		"go func() { for { time.Sleep(1) } }()":                  1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", fmt.Sprintf("package x\nfunc f() { %s }", body), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := sleeping(f.Decls[0]); len(got) != want {
			t.Errorf("%s: got %d sleeps, want %d", strings.TrimSpace(body), len(got), want)
		}
	}
}
