// Package image maps the image names of pods to programs of this machine. A Table reads its file at
// each lookup, so images can be loaded while a lab runs. A name without a tag stands for all tags;
// a name with a tag takes precedence. The longest name wins. Test alone with `go test ./lab/image`.
package image
