//go:build faults

package app

import "github.com/penstock-project/penstock/translator"

func fault(q translator.Query) {
	if q.Header.Get("penstock.dev-fault") == "panic" {
		panic("the fault that a question asks for")
	}
}
