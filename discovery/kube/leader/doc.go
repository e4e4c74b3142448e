// Package leader elects, by a Lease, the one penstock process that writes to the API server:
// statuses (discovery/status/kubestatus) and the fleets of Gateways (xds/fleet). Every process
// serves xDS.
//
// Invariants: the context of the leading function ends before another process may lead. LastContact
// is the time of the API server's last response, so that a process can detect that it is cut off
// from the API server.
package leader
