package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/penstock-project/penstock/xds/supervisor"
)

// TestMain makes this test binary the command penstock in PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"penstock": main})
}

func TestCommand_Scripts(t *testing.T) {
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("PENSTOCK_GOLDEN") == "rewrite",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ENVOY", envoy.Path)
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/.state")
			return nil
		},
	})
}
