// Package demo demonstrates Penstock on one machine. A "cluster" is a penstock process with its own
// Envoy and simulated model servers. The steps of a demo check themselves. The package runs the
// penstock binary as a user would.
//
//	steps.yaml              the texts of all steps
//	config/, set/, engines/ the YAML of the demos; most steps begin by saving a file that penstock
//	                        watches
//
// Invariants: addresses are on loopback and ports are free, so demos can run side by side;
// when Run returns, its processes and files are gone; no step reports a result that it has not
// observed.
package demo
