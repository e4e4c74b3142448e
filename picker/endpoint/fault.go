//go:build !faults

package endpoint

import "net/http"

// In builds with tag faults, it panics for metrics pages that request it.
func fault(http.Header) {}
