//go:build faults

package app

import "github.com/penstock-project/penstock/translator"

// fault panics if the query has the header penstock.dev-fault: panic.
func fault(q translator.Query) {
	if q.Header.Get("penstock.dev-fault") == "panic" {
		panic("the fault that a question asks for")
	}
}
