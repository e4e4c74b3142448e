// Package processes starts, watches and stops model servers (engines) on this machine. The
// subcommands that serve a folder construct it, and package controller passes the processes to it.
//
// An engine outlives the process that started it. It has its own session, and writes directly to
// its log file. The next Supervisor of the folder adopts an engine if process ID, start time and
// boot match the engine's record. Only Want and Down stop engines.
//
// A start loses no process, even if the supervisor is killed meanwhile. The record with a new token
// is written before the process exists, and the process has this token in its variable
// PENSTOCK_ENGINE. If a record has a token but no process ID, the next supervisor searches all
// processes for the token. Some engines overwrite their environment, so a process whose standard
// output is the engine's log matches, too. A child holds the folder's lock until it executes its
// program, so the search never precedes the program. The search also finds the workers of a dead
// engine, which are killed.
//
// The supervisor copies a log over its limit to NAME.log.1, and truncates it. Lines written in
// between are lost. Without a supervisor, a log grows until the next one opens the folder.
//
// Goroutines start in Open and end in Close, because consumers call methods in between without a
// context.
//
// A process is Running only if the engine, a descendant or a process with its token or log listens
// at the port of its readiness check. If another process listens there, the engine is stopped and
// starts again. Outside Linux, and if the engine's open files are hidden from this user, each
// answer makes a process ready. The server of a container is no descendant of the command that
// started it. Therefore callers set AnyListener for a container, and each answer counts.
//
// A ready engine is checked every 40 seconds on average. After 3 checks without an answer within 10
// seconds it is Unresponsive. After 18 checks (3 minutes) it is ended as after a crash. A check
// counts only if the engine's processes use less than 5 % of a core, because an overloaded server
// answers late, but computes. So an engine in a busy loop is not noticed. Engines with AnyListener,
// and all engines outside Linux, never become Unresponsive.
//
// Invariants: a folder has one supervisor (LockedError otherwise). Records have mode 0600 and no
// argument, variable or secret. At most 256 processes run. The logs of a process have at most twice
// the limit of 8 MiB, and what it writes between two checks of their sizes. A broken record is
// logged by name and loses no other record; its process, if the log identifies one, is stopped.
//
// Where systemd runs, each engine gets a transient scope (scope.go), so that it continues when the
// supervisor's unit stops. Without permission, for example in a system unit with another User than
// root, a warning is logged. Then the unit needs KillMode=process.
//
// Outside Linux, ended processes are noticed within a second, and a process without a recorded ID
// is not found.
//
// Tests: go test ./discovery/engine/processes
package processes
