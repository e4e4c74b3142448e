// Package deployments runs the ModelDeployments of a folder. It stands between discovery/file and
// the store, and between the store and internal/engines.
//
// A Keeper implements file.Store (keeper.go). It adds the objects that discovery/engine/deployment
// derives to each change of files, so that a deployment and its route take effect in one revision.
// Derived objects exist in the store alone. With a supervisor (run.go), the Keeper turns
// deployments into wanted processes (processes.go), and the states of processes into ModelServers
// and reports (phases.go). Package app constructs it.
//
// A deployment without requests stops, and the next request starts it: the Keeper is the picker's
// OnDemand (demand.go). Requests come from the picker, too, which counts them until they have
// ended. A deployment stops in two steps: its servers become draining, so that picks leave them;
// once the picker reports no request, the processes end. If a request waits for accelerators,
// cores or memory, deployments without requests give theirs, the least recently used one first. If
// all have requests, one that has served for 10 s begins to drain.
//
// Invariants:
//   - An object that a user wrote stays as it is. A deployment whose derived objects have the name
//     of a user's object, or whose model another deployment serves at the same Gateway, is not
//     accepted. Beside a user's object, servers that run go on. The first owner of a model's name
//     keeps it until its own newest version has another name, also over a restart (names.go).
//   - A server is in ModelServers only while it is ready.
//   - The value of a Secret (environment.go) is in the environment of processes alone. Without its
//     Secret no server starts, and one that runs goes on.
//   - A version with spec.access gates the model, also if another field of that version is invalid.
//   - A deployment that becomes invalid, or takes another's name, keeps its last good version, also
//     over a restart.
//   - A changed command restarts one running server of a deployment at a time. The next one follows
//     once the first is ready.
//   - A server keeps its port over restarts of this process, so that its command stays equal and it
//     is adopted. It gets another port only while it does not run and the port is taken.
//   - A server keeps its accelerators, and what it reserves of the machine (accelerators.go), while
//     its process runs. A process that needs others ends before the next one starts, so that no
//     accelerator has both.
//   - A server is not stopped for idleness or for another deployment while it has a request. A
//     server that a request has started serves the requests that waited before it gives its room.
//   - A deployment that is Asleep stays so over a restart.
//   - The model of a registry (models.go) is resolved to a commit once for each deployment, also
//     over restarts. A server that runs is not stopped while its next model is downloaded.
//   - A server whose model fits on no accelerator of this machine (memory.go) is not started, and a
//     change to such a model stops nothing. An accelerator is reserved once the model is there.
//   - Without a supervisor, no server is started, and every deployment has the reason.
//
// Tests: go test ./cmd/penstock/internal/deployments
package deployments
