//go:build faults

package picker

import "github.com/penstock-project/penstock/picker/extproc"

func fault(r *extproc.Request) {
	if r.Headers != nil && string(r.Headers.Header("penstock.dev-fault")) == "panic" {
		panic("the fault that a request asks for")
	}
}
