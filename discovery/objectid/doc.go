// Package objectid owns the identities of pools and their texts: "NAMESPACE/NAME" and its
// extensions.
//
//	Pool    an InferencePool or InferencePoolImport    "NAMESPACE/NAME"
//	Member  a pool and a member of the cluster set     "MEMBER/NAMESPACE/NAME"
//	Target  a set to pick from (package picker)  "NAMESPACE/NAME", "NAMESPACE/NAME@MEMBER", "NAMESPACE/NAME@"
//
// Every package may import it. A text is parsed when it enters the process: from a flag, file,
// annotation, header, query, or message of another process. Within the process, the identity is a
// comparable value. String returns the text for a log, metric, message, Envoy resource, or key of
// the store.
//
// Gateways, Services and other objects also have such texts: their keys in the store (store.ID).
// Split and Join handle those texts.
//
// Two places keep the text on purpose. The picker finds a pool, and the pool of a lease, by the
// text that a gateway sends; it does not parse that text. The store and the rows of translation use
// such texts as keys.
//
// Invariants: a text that parses equals the String of the result. Only this package splits such
// texts (TestLayout_OnlyOnePackageSplitsNames). The package imports no other package of Penstock.
// Identities have no case folding and no defaults: a text without a namespace does not parse.
//
// Pool is not types.NamespacedName of k8s.io/apimachinery: that type has no parser, accepts an
// empty namespace, and identifies any object: a map of pools would accept the key of a Gateway.
//
// Tests: go test ./discovery/objectid
package objectid
