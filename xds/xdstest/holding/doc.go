// Package holding is a model server for tests and benchmarks that holds requests in flight until
// their clients give up. Its metrics page shows an idle server: only the external picker counts the
// requests.
package holding
