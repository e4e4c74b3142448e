//go:build !faults

package endpoint

import "net/http"

// fault panics in builds with the tag faults, for metrics pages that request it.
func fault(http.Header) {}
