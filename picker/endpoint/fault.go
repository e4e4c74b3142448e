//go:build !faults

package endpoint

import "net/http"

// fault does nothing. With the build tag faults, it panics if a response header of a metrics page
// requests this.
func fault(http.Header) {}
