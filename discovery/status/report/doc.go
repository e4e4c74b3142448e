// Package report defines reports about objects that users write: conditions, as in the Gateway API;
// findings, which name the object, the field, the problem and its fix; and addresses.
//
// Every package may import it; it imports only packages of other projects. Reports are plain
// values, immutable once handed on.
package report
