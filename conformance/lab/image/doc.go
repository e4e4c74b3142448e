// Package image says which program of this machine an image name of a pod stands for.
//
// A Table is a file, read again at each question: what is loaded while a lab runs counts at once. A name in it without a tag
// stands for all tags; with one it stands for that tag only, and goes first. The longest name wins, so that
// "example.com/echo" is not taken for "echo".
//
// It is called by cri (what to run) and cmd/lab (what is loaded). Test alone with `go test ./lab/image`.
package image
