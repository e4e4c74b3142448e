// Package fault injects faults that the simulation (multicluster/set/simulate) must detect. Only
// builds with the build tag "faults" have them.
package fault
