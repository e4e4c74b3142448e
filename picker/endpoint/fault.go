//go:build !faults

package endpoint

import "net/http"

// fault does nothing. In a test build (tag faults) it panics at metrics pages that ask for it.
func fault(http.Header) {}
