// Command release writes what Penstock publishes, without a container engine, Helm or a network.
//
//	release image  the OCI image of a program: one Linux image for each platform, their index,
//	               and for each image an SBOM (CycloneDX) that refers to it. `make image` calls
//	               it.
//	release dist   the folder dist/ of a release: archives of the programs, images, charts, CRDs,
//	               one install manifest, the wheels of Envoy, their SBOMs, checksums and their
//	               signature. `make release` calls it.
//	release push   pushes the images in such a folder, and their signatures. `make publish` calls
//	               it.
//
// An image has no base image, because a static Go program needs none. Besides the program it has
// the user that runs it, the root certificates of Mozilla (golang.org/x/crypto/x509roots), and
// /tmp.
//
// Invariants: the same programs and sources give the same bytes, in every folder and at every time,
// except for signatures. An image runs as user 65532. The unpacked files (rootfs) come from the
// written layout. Only wheels whose hash is in conformance/tools/envoy.txt are published.
//
// Tests: go test . in this folder.
package main
