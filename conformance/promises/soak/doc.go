// Package soak measures a process of Penstock over hours, while faults happen. Command zeroloss
// uses it on a folder, and package promises on Kubernetes. Samples records the live heap, the
// goroutines and the resident memory without pages of files. Growth computes the figures
// soak_slope, which have limits. With Samples.Size, growth in proportion to the configuration does
// not count.
//
// Tests: go test ./promises/soak
package soak
