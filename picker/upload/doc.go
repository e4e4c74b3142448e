// Package upload counts the bytes of request bodies that each Envoy holds, and decides which
// further uploads it may take.
//
// Envoy holds a body of up to 32 MiB for its picker, for its model's name and for retries, until
// the request has ended. Its overload manager resets the largest streams near the heap's limit, but
// keeps no account of HTTP/1.1 streams. So Envoy asks our picker about each request with a large
// body, and the picker's Ledger answers. Only package picker calls it.
//
// Invariants:
//   - An Envoy holds no more than its limit, whatever its clients do.
//   - An upload takes at most half of what the others leave: small ones find room when large ones
//     do not.
//   - What a request took is returned when its call ends, by whatever cause.
//
// Tests: go test ./picker/upload.
package upload
