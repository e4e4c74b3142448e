package catalog_test

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/commandline"
)

func TestCatalog_EveryEngineIsUsable(t *testing.T) {
	want := []string{"llama-cpp", "sim", "vllm"}
	if got := catalog.Names(); !slices.Equal(got, want) {
		t.Fatalf("engines %v, want %v", got, want)
	}
	for _, name := range want {
		e, _ := catalog.Get(name)
		for _, f := range commandline.Check(e) {
			t.Errorf("%s: %s", name, f)
		}
		for _, v := range e.Spec.Versions {
			reserved := commandline.Reserved(&v.DeployTemplate.Process)
			for _, arg := range []string{"port"} {
				if name != "sim" && !slices.Contains(reserved, arg) {
					t.Errorf("%s %s: a variable can set --%s: %v", name, v.Version, arg, reserved)
				}
			}
		}
	}
}
