// Command release writes what Penstock publishes, without a container engine, Helm or a network.
//
//	release image   the OCI image of a program: one Linux image for each platform, their index, and
//	                an SBOM (CycloneDX) of each that refers to its image. `make image` calls it.
//	release dist    the folder dist/ of a release: archives of the programs, images, charts, CRDs,
//	                one install manifest, the wheels of Envoy, an SBOM of each, checksums and their
//	                signature. `make release` calls it.
//	release push    pushes the images in such a folder. `make publish` calls it.
//
// An image has no base image: a static Go program needs none. Beside the program, the image has the
// user that runs it, the root certificates of Mozilla (golang.org/x/crypto/x509roots), and /tmp.
//
// Files:
//
//	main.go      commands and flags              root.go     the files of an image
//	image.go     layers, images and their index  layout.go   the OCI layout, its unpacked form, and the push
//	archive.go   deterministic archives          sbom.go     the parts of programs and other artifacts
//	dist.go      the artifacts of a release      charts.go   charts and manifests, with images by their digests
//	wheels.go    the pinned Envoy                licenses.go the licenses of modules
//	sums.go      checksums and their signature
//
// Invariants: the same programs and sources give the same bytes, in every folder and at every time;
// a signature differs. An image runs as user 65532. Unpacked files were read back from the layout.
// Only wheels whose hash is in conformance/tools/envoy.txt are published.
//
// Tests: go test . in this folder.
package main
