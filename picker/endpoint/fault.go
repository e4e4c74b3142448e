//go:build !faults

package endpoint

import "net/http"

// fault panics in builds with the tag faults, if a metrics page requests it.
func fault(http.Header) {}
