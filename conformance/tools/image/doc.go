// Command image writes the OCI image of a program, without a container engine: one Linux image for each platform whose program
// it is given, their index, and an SBOM of each (CycloneDX) that refers to its image. `make image` calls it for penstock and for
// penstock-external.
//
// There is no base image: a static Go program needs none. Beside the program, the image has the user that runs it, the root
// certificates of Mozilla (golang.org/x/crypto/x509roots), and /tmp.
//
// Files:
//
//	root.go     the files of an image         image.go   layers, images and their index
//	sbom.go     what a program is made of     main.go    flags; the OCI layout, its unpacked form, and the push
//
// Invariants: the same programs give the same bytes, in every folder and at every time. An image runs as user 65532. What is
// unpacked was read back from the layout.
//
// Tests: go test . in this folder.
package main
