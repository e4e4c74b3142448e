// Package docs reads the pages of the folder docs. A test of package features runs their code
// blocks, and the tests here check their prose.
//
// The info string of a block states how it is tested:
//
//	sh test              bash runs it in a folder for the page, after all earlier blocks
//	yaml test NAME       it becomes the file NAME in that folder (any language except sh and text)
//	text test            it is the output of the sh block before it, see Match
//	... lab              it needs a Kubernetes cluster
//	... engines          it needs real model servers
//	... shown (reason)   no test runs it; at most 15 % of all blocks
//
// Invariants: a page has at most 8 KB, all pages except index and glossary together 160 KB, a
// paragraph 90 words, and a sentence on average fewer than 20 words. envoy.md and comparison.md are
// no task pages and may have more. A page with commands of penstock links to get-penstock.md.
// Systemd units of a page are valid (units_test.go). Each link leads to a page and a heading that
// exist. The pages in docs/reference, which cmd/penstock generates, have no such limits and no
// tags.
//
// Tests: go test ./docs. They need neither Envoy nor a network.
package docs
