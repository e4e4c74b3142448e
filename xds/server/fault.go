//go:build !faults

package server

func fault(request) {}
