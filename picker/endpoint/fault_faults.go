//go:build faults

package endpoint

import "net/http"

// fault panics at a metrics page with the header penstock.dev-fault: panic.
func fault(h http.Header) {
	if h.Get("penstock.dev-fault") == "panic" {
		panic("the fault that a metrics page asks for")
	}
}
