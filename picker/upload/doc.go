// Package upload counts the bytes of request bodies that each Envoy holds, and decides which
// further uploads an Envoy may accept. Envoy's overload manager ignores HTTP/1.1 streams, so Envoy
// asks our picker about each request with a large body. Only package picker calls this package.
//
// Invariants: an Envoy holds no more than its limit. An upload takes at most half of the room that
// other uploads leave, so that small uploads find room when large ones do not.
package upload
