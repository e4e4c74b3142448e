// Package objectid has the types that identify pools, and converts them to and from texts:
// "NAMESPACE/NAME" and its extensions.
//
//	Pool    an InferencePool or InferencePoolImport    "NAMESPACE/NAME"
//	Member  a pool and a member of the cluster set     "MEMBER/NAMESPACE/NAME"
//	Target  a set to pick from (package picker)  "NAMESPACE/NAME", "NAMESPACE/NAME@MEMBER", "NAMESPACE/NAME@"
//
// Only the picker, the store and the rows of translation use these texts as keys. All other code
// uses the types.
//
// Invariants: if a text parses, it equals the String of the result. Only this package splits these
// texts (TestLayout_OnlyOnePackageSplitsNames). It imports no other package of Penstock. Parsing is
// case-sensitive and adds no defaults: a text without a namespace does not parse.
package objectid
