//go:build !faults

package server

// fault does nothing. In a test build (tag faults) it panics at subscriptions that ask for it.
func fault(request) {}
