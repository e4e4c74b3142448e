// Package docs reads the pages of the folder docs: their blocks, which the test of package features
// runs, and their prose, which the tests here check.
//
// The info string of a block states what becomes of it:
//
//	sh test              bash runs it, in the page's folder, after the blocks before it
//	yaml test NAME       it is the file NAME of that folder (any language other than sh and text)
//	text test            the output of the sh block before it, see Match
//	... lab              it needs a Kubernetes cluster
//	... engines          it needs real model servers
//	... shown (reason)   no test runs it; at most 15 % of all blocks
//
// Invariants: a page has at most 8 KB, all of them 160 KB (index and glossary aside), a paragraph
// 90 words, a sentence fewer than 20 in the mean; envoy.md and comparison.md are no task pages and
// may have more. A page with commands of penstock links to get-penstock.md. Systemd units of a page
// are valid (units_test.go). Each link leads to a page and a heading that exist. The pages in
// docs/reference, which cmd/penstock generates, have no such limits and no tags.
//
// Tests: go test ./docs. They need neither Envoy nor a network.
package docs
