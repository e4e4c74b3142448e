package release

import (
	"os"
	"regexp"
	"testing"
)

func TestRelease_VersionOfTheLinkerComesFirst(t *testing.T) {
	if got := Version(); got == "" {
		t.Error("a build without a version reports none")
	}
	version = "v1.2.3"
	defer func() { version = "" }()
	if got := Version(); got != "v1.2.3" {
		t.Errorf(`got %s, want "v1.2.3"`, got)
	}
}

// A test binary contains only the modules that it imports, so this test reads go.mod.
func TestRelease_ModulesOfAPIsAreThoseOfGoMod(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{GatewayAPI, InferenceExtension} {
		if !regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` v`).Match(text) {
			t.Errorf("go.mod has no module %s", module)
		}
	}
	if got := Of("example.com/none"); got != "" {
		t.Errorf("a module that is not there has version %s, want none", got)
	}
}
