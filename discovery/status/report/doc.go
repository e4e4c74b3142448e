// Package report defines reports about objects that users write: conditions, as in the Gateway API;
// findings, which name the object, the field, the problem and its fix; and addresses.
//
// Every package may import it. It imports no other package of Penstock. A report must not be
// modified after it was passed to another package.
package report
