// Package debug serves the pages behind `penstock debug`: the state of a running process.
//
//	/debug/store/KIND      objects of the store; with ?watch, a JSON line for each change
//	/debug/graph?key=KEY   rows of the translation: inputs, readers, when they changed and why
//	/debug/xds/dump?gateway=NAMESPACE/NAME   what is served, in the form of Envoy's /config_dump
//	/debug/xds/diff?node=ID                  served versions against accepted ones
//
// Only operators may reach these pages: internal/app serves them on the state folder's socket and
// on --admin.
//
// Invariants: no page contains a private key, a password or a token. A page never blocks
// translation for longer than one read.
package debug
