// Package channel is how the penstock processes that serve the same Envoys tell one another what no file and no API server
// tells them: small facts, each with a name, under a few topics. Each process serves its own facts on the port of its ADS
// and follows those of all others, which it is given by address.
//
// A topic is made before Run, with a function that hears what others tell. Topics in use, all made by cmd:
//
//	learned   endpoints that remote pickers named (multicluster/learned): name "POOL ADDRESS", no body, a time to live
//	names     what a process's picker names of a pool: name is the pool, body a digest
//	proxies   how many Envoys of a gateway a process serves: name is the gateway, body a decimal number
//	refused   what a proxy refuses, and why: name is the proxy, body the encoded reports
//	ends      requests that ended and that another process picked for: name is a number, body a list of them; for some seconds
//	relays    why the picks of a remote picker do not serve: name is the pool, body the encoded report
//
// So the process that writes status for all knows what each of them knows.
//
// On the wire it is one stream with the messages of delta xDS: a request names a topic (type_url), a response has facts
// (resources, with ttl) and names that are gone, and a response is acknowledged once what it says is in effect. So Heard can
// wait for all others. The first response of a topic has everything, so nothing is asked for by version. A reader never
// writes here: whom a process believes are those that it dials, and that prove who they are if Config.Credentials ask for it. Federation between clusters can speak the same.
//
// Invariants: each topic has one response under way for each follower, what is told meanwhile is collapsed; a follower that
// is late is not waited for; an address that turns out to be the process itself is left alone, so that all may be given
// one list.
//
// Tests: go test ./multicluster/channel
package channel
