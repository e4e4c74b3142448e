// Package prefix knows which prompt prefixes each model server has cached.
//
// Tests: go test ./picker/prefix.
package prefix
