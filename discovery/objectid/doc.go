// Package objectid owns the identities of pools and their texts: "NAMESPACE/NAME" and its
// extensions.
//
//	Pool    an InferencePool or InferencePoolImport    "NAMESPACE/NAME"
//	Member  a pool and a member of the cluster set     "MEMBER/NAMESPACE/NAME"
//	Target  a set to pick from (package picker)  "NAMESPACE/NAME", "NAMESPACE/NAME@MEMBER", "NAMESPACE/NAME@"
//
// Only the picker, the store and the rows of translation use such texts as keys; all other code
// uses the identities.
//
// Invariants: a text that parses equals the String of the result. Only this package splits such
// texts (TestLayout_OnlyOnePackageSplitsNames). It imports no other package of Penstock. Identities
// have no case folding and no defaults: a text without a namespace does not parse.
package objectid
