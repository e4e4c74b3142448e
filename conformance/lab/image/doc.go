// Package image maps the image names of pods to programs of this machine.
//
// A Table reads its file at each lookup, so images can be loaded while a lab runs. A name without a
// tag stands for all tags; a name with a tag stands for that tag and takes precedence. The longest
// name wins, so that "example.com/echo" is not found as "echo".
//
// Packages cri (to run a program) and cmd/lab (to load images) call it. Test alone with `go test
// ./lab/image`.
package image
