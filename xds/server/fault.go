//go:build !faults

package server

// fault does nothing. In a test build (tag faults) it panics at certain subscriptions.
func fault(request) {}
