// Command penstock-external has the small programs that stand in for the external services of a
// pool with picker.processor: a processor (POST /process), a router (POST /route) and a token
// store. manifests/charts/external runs them.
package main
