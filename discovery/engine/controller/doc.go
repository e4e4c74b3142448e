// Package controller runs the ModelDeployments of a folder. Package app constructs it.
//
// A Keeper implements file.Store (keeper.go), so each change of files passes through it on the way
// to the store. It keeps the objects that deployments depend on (inputs.go), and adds the objects
// that discovery/engine/deployment derives, so that a deployment and its route take effect in one
// revision. Derived objects exist in the store alone. With a supervisor (run.go), the Keeper turns
// deployments into processes (processes.go), and the states of processes into ModelServers and
// reports (phases.go).
//
// A deployment without requests stops, and the next request starts it (demand.go): the Keeper is
// the picker's OnDemand, and the picker counts the requests. To stop, servers first drain: picks
// avoid them. Their processes end once the picker counts no request. If a request waits for
// accelerators, cores or memory, idle deployments stop, the least recently used one first. If all
// are busy, a deployment that has served for 10 s drains.
//
// Invariants:
//   - An object that a user wrote stays as it is. A deployment is not accepted if a derived object
//     has the name of a user's object, or if another deployment serves its model at the same
//     Gateway. In the first case, running servers continue.
//   - The first owner of a model's name keeps the name until its newest version has another one,
//     also after a restart (names.go).
//   - A server is in ModelServers only while it is ready.
//   - The value of a Secret (environment.go) is only in the environment of processes. Without its
//     Secret no server starts, and running servers continue.
//   - A version with spec.access protects the model, even if another field of it is invalid.
//   - A deployment that becomes invalid, or takes another's name, keeps its last valid version,
//     even after a restart.
//   - A changed command restarts one running server of a deployment at a time. The next one follows
//     once the first is ready.
//   - A server keeps its port over restarts of this process, so that its command stays equal and it
//     is adopted. It gets another port only while it does not run and the port is taken.
//   - A server keeps its reservation of accelerators, cores and memory (accelerators.go) while its
//     process runs. If it needs other accelerators, its process ends before the next one starts.
//   - A server with a request is not stopped for idleness or for another deployment. A server that
//     requests have started serves these requests before it gives its room.
//   - A deployment stays in the phase Asleep over a restart.
//   - The model of a registry (models.go) is resolved to a commit once for each deployment, also
//     over restarts. A running server continues while its next model is downloaded.
//   - A server whose model fits on no accelerator of this machine (memory.go) is not started, and a
//     change to such a model stops nothing. Accelerators are reserved once the model is downloaded.
//   - Without a supervisor, no server is started, and every deployment reports the reason.
//
// Tests: go test ./discovery/engine/controller
package controller
