// Package upload counts the bytes of request bodies that each Envoy holds in memory, and decides
// which further uploads an Envoy may accept. Envoy's overload manager ignores HTTP/1.1 streams, so
// Envoy calls our picker for each request with a large body. Only package picker calls this
// package.
//
// Invariants: an Envoy holds at most its limit of bytes. An upload takes at most half of the memory
// that other uploads leave, so that small uploads still fit when large ones do not.
package upload
