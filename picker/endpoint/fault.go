//go:build !faults

package endpoint

import "net/http"

// With the build tag faults, fault panics if a response header of a metrics page requests it.
// Without the tag, it does nothing.
func fault(http.Header) {}
