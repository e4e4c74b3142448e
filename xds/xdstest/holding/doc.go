// Package holding is a model server for tests and benchmarks that holds requests in flight until
// their clients give up. Its metrics page reports an idle server, so that only a picker's own
// counts show requests.
package holding
