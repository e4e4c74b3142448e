//go:build faults

package endpoint

import "net/http"

func fault(h http.Header) {
	if h.Get("penstock.dev-fault") == "panic" {
		panic("the fault that a metrics page asks for")
	}
}
