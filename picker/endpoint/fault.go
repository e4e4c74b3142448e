//go:build !faults

package endpoint

import "net/http"

// In builds with the tag faults, fault panics if a metrics page requests it.
func fault(http.Header) {}
