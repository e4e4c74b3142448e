// Package engines starts, watches and stops model servers on this machine. It knows processes, not
// Kubernetes objects. The subcommands of cmd/penstock that serve a folder use it.
//
// An engine outlives the process that started it. It has its own session, and it writes directly to
// its log file. A Supervisor that ends leaves all engines. The next one on the same folder adopts
// them: it compares process ID, start time and boot of each record with the process. A reused
// process ID does not match. Only Want and Down stop engines.
//
// A start loses no process, even if the supervisor is killed in the middle. The record with a new
// token is in its file before the process exists, and the process has this token in its
// environment, in the variable PENSTOCK_ENGINE. A record without a process ID leads to a search for
// the token. Some engines overwrite their environment, so a process whose standard output is the
// engine's log matches, too. The folder's lock stays held by a child until the child executes its
// program. Therefore the search never precedes the program. A search for the same marks also finds
// workers that a dead engine left, which are killed.
//
// Logs: the supervisor copies a file over its limit to NAME.log.1 and truncates it. The engine
// appends, so it goes on at the start of the file. Lines written between the copy and the
// truncation are lost. Without a supervisor, a log grows until the next one opens the folder.
//
// Two parts of a Process form its identity: Command with Dir, and Env. Inherited is not a part:
// another terminal has other variables, and an engine must not load its weights again for them.
//
// Goroutines start in Open and end in Close, not in a Run method: between both, a consumer calls
// methods that need no context of their own.
//
// A process is Running only if the engine, a descendant or a process with its mark listens at the
// port of its readiness check. Another listener may answer the check while the engine loads. Then
// the engine is stopped, waits with that reason and starts again. An adopted process is checked
// once more. The check needs /proc: outside Linux, and for an engine whose open files are hidden
// from this user, each answer makes a process ready. A container whose runtime listens for it is no
// descendant of the command that started it: for it, a caller sets AnyListener, and each answer
// makes the process ready, too.
//
// A ready engine is checked every 40 seconds on average. After 3 checks of 10 seconds without an
// answer it is Unresponsive; after 18 checks, 3 minutes, it is ended as after a crash. A check
// counts only if the engine's processes use less than 5 % of a core in it: a server whose threads
// are taken by long requests answers late, but computes. So an engine that hangs in a busy loop is
// not noticed. Outside Linux, where the CPU time of descendants is not read, none is, and none with
// AnyListener.
//
// Invariants: a folder has one supervisor (LockedError otherwise). Records have mode 0600 and no
// argument, variable or secret. At most 256 processes run. The logs of a process have at most twice
// the limit of 8 MiB, and what it writes within 3 seconds. A broken record is logged by name and
// loses no other record; its process, if the log identifies one, is stopped.
//
// Where systemd runs, each engine gets a transient scope (scope.go), so that a stop of the unit of
// its supervisor leaves it. Without a right to that, for example in a unit of the system with
// another User than root, it logs a warning: then the unit needs KillMode=process.
//
// Outside Linux, ended processes are noticed within a second, and a process without a recorded ID
// is not found.
//
// Tests: go test ./cmd/penstock/internal/engines
package engines
