// Package docs reads the pages of the folder docs. A test of package features runs their code
// blocks. The tests here check prose, sizes and links. The info string of a block states how it is
// tested:
//
//	sh test              bash runs it in a folder for the page, after all earlier blocks
//	yaml test NAME       it becomes the file NAME in that folder (any language except sh and text)
//	text test            it is the output of the sh block before it, see Match
//	... lab              it needs a Kubernetes cluster
//	... engines          it needs real model servers
//	... shown (reason)   no test runs it; at most 15 % of all blocks
//
// The pages in docs/reference, which cmd/penstock generates, have no tags and no limits of size.
//
// Tests: cd conformance && go test ./docs. They need neither Envoy nor a network.
package docs
