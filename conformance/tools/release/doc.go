// Command release writes what Penstock publishes, without a container engine, Helm or a network.
//
//	release image  the OCI image of a program for each platform, their index, and SBOMs (make image)
//	release dist   the folder dist/ of a release, with checksums and their signature (make release)
//	release push   pushes the images in such a folder, and their signatures (make publish)
//
// An image has no base image. It has the program, a user (65532), Mozilla's root certificates
// (golang.org/x/crypto/x509roots), and /tmp.
//
// Invariants: the same programs and sources give the same bytes in every folder and at every time,
// except for signatures. Only wheels whose hash is in conformance/tools/envoy.txt are published.
package main
