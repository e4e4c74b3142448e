// Package objectid owns the identities of pools, and their texts: "NAMESPACE/NAME" and the forms
// that extend it.
//
//	Pool    an InferencePool or InferencePoolImport    "NAMESPACE/NAME"
//	Member  a pool and a member of the cluster set     "MEMBER/NAMESPACE/NAME"
//	Target  what a request picks from (package picker)  "NAMESPACE/NAME", "NAMESPACE/NAME@MEMBER", "NAMESPACE/NAME@"
//
// Every package may import it. A text is parsed where it enters the process: a flag, a file, an
// annotation, a header, a query, a message of another process. From there on the identity passes as
// a value, which is comparable and so the key of maps. String returns the text where it leaves: to
// a log, a metric, a message, an Envoy resource, a key of the store.
//
// Gateways, Services and other objects are known by such a text, too: their key in the store
// (store.ID). Code that needs its parts, or checks the text of a user, calls Split; code that makes
// one calls Join.
//
// Two places keep the text on purpose: the picker finds a pool, and the pool of a lease, by the
// text that a gateway sends, without parsing it; and the store, and the rows of translation, have
// such texts as keys.
//
// Invariants: a text that parses is the String of what it parses to. Only this package splits such
// texts (TestLayout_OnlyOnePackageSplitsNames). The package imports no other package of Penstock.
// Identities have no case folding and no defaults: an absent namespace is a text that does not
// parse.
//
// Pool is not types.NamespacedName of k8s.io/apimachinery, because that type has no parser, accepts
// an empty namespace, and its name means any object; a map of pools would then accept the key of a
// Gateway.
//
// Tests: go test ./discovery/objectid
package objectid
