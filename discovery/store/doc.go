// Package store holds every object that Penstock knows, whoever read it: a typed table a kind,
// each index of it a copy-on-write B-tree.
//
// Warning: objects are immutable. Whoever reads one must not change it, nor anything that it points to; whoever writes
// one hands it over for good.
//
// Writers (discovery/file, discovery/kube) call Apply with what arrived together; it is one transaction and one
// revision. Readers take a View, which is one consistent world. A Subscription gets every revision's changes, each
// with the keys of every index that the old and the new object have, so that whoever remembered having read
// (table, index, key) knows whether to read again. The translator and the multicluster parts read it; nobody else does.
//
// Adding a kind is one variable in tables.go, with its indexes.
//
// Invariants: a primary key is "namespace/name" (or "name", for cluster-scoped kinds); rows come out sorted by it; a
// revision's number grows by one each; applying an object that equals the stored one is no change.
//
// Tests: go test ./discovery/store
package store
