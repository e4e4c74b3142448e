// Package upload counts the bytes of request bodies that each Envoy holds, and decides which
// further uploads an Envoy may accept.
//
// Envoy holds a body of up to 32 MiB for its picker, to find the model's name, and for retries,
// until the request has ended. Its overload manager resets the largest streams when memory is near
// the heap's limit, but ignores HTTP/1.1 streams. So Envoy asks our picker about each request with
// a large body, and the picker's Ledger answers. Only package picker calls this package.
//
// Invariants:
//   - An Envoy holds no more than its limit, whatever its clients do.
//   - An upload takes at most half of the room that other uploads leave, so small uploads find room
//     when large ones do not.
//   - A request's bytes are returned when its call ends, for any reason.
//
// Tests: go test ./picker/upload.
package upload
