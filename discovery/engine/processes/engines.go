package processes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Process is one wanted engine process.
type Process struct {
	Name    string   // unique and stable: NAMESPACE/DEPLOYMENT/REPLICA
	Command []string // absolute program and arguments
	// Env has the variables chosen for this process, as KEY=value. A change restarts the process.
	Env []string
	// Inherited has further variables, for example PATH and HOME. Env takes precedence. A change
	// restarts nothing.
	Inherited      []string
	Dir            string        // working directory, absolute; the root directory by default
	Ready          string        // URL on loopback that answers 200 once the engine serves; empty: ready once started
	AnyListener    bool          // any process may listen at Ready, not only the engine
	StartupTimeout time.Duration // from start to ready; 20 minutes by default
	StopGrace      time.Duration // from SIGTERM to SIGKILL; 30 seconds by default, 1 hour at most
	Secrets        []string      // values that are hidden in State.LastWords
	// Keep leaves a running process as it is, whatever its command is. No process is started.
	Keep bool
}

// Phase is a stage in the life of a process.
type Phase int

// The phases of a process.
const (
	Waiting      Phase = iota // ended; starts again after the back-off
	Starting                  // runs, but is not ready
	Running                   // was ready
	Stopping                  // got SIGTERM and has not ended
	Stopped                   // does not run
	Failed                    // cannot start, or was not ready in time; starts again after the back-off
	Unresponsive              // was ready, gives no answer and uses no CPU time; is restarted later
)

// String returns the name of the phase.
func (p Phase) String() string {
	names := [...]string{"Waiting", "Starting", "Running", "Stopping", "Stopped", "Failed", "Unresponsive"}
	if p < 0 || int(p) >= len(names) {
		return fmt.Sprintf("Phase(%d)", int(p))
	}
	return names[p]
}

// State describes a process at one moment.
type State struct {
	Name      string
	Phase     Phase
	PID       int       // 0: no process
	Since     time.Time // start of the phase
	Restarts  int       // starts after the first one
	Failures  int       // consecutive failures without minutes of service in between
	Served    bool      // in the phase Waiting: the process was ready before it ended
	Reason    string    // why the process is not Running, or why a wanted change has no effect
	LastWords string    // the end of the log of the last ended process, at most 2 KiB
	Hash      string    // hash of the running command
	Adopted   bool      // an earlier supervisor started it
}

// Limits of a Process.
const (
	maxName      = 1 << 10
	maxArguments = 1 << 20 // bytes of command and variables together
	maxSecrets   = 1 << 10
	maxGrace     = time.Hour

	defaultStartup = 20 * time.Minute
	defaultGrace   = 30 * time.Second
)

// Hash identifies the command of a process: its program, arguments, folder and Env.
func (p Process) Hash() string {
	raw, err := json.Marshal([]any{p.Command, p.Dir, p.Env})
	if err != nil { // strings always have a JSON form
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

func (p Process) startup() time.Duration {
	if p.StartupTimeout <= 0 {
		return defaultStartup
	}
	return p.StartupTimeout
}

func (p Process) grace() time.Duration {
	if p.StopGrace <= 0 {
		return defaultGrace
	}
	return min(p.StopGrace, maxGrace)
}

func (p Process) check() error {
	size := len(p.Dir)
	for _, list := range [][]string{p.Command, p.Env, p.Inherited} {
		for _, s := range list {
			if size += len(s) + 1; strings.ContainsRune(s, 0) {
				return errors.New("an argument or variable contains a NUL byte")
			}
		}
	}
	switch {
	case len(p.Command) == 0 || !filepath.IsAbs(p.Command[0]):
		return errors.New("the program is not an absolute path")
	case p.Dir != "" && !filepath.IsAbs(p.Dir):
		return errors.New("the working directory is not an absolute path")
	case size > maxArguments:
		return fmt.Errorf("command and variables have %d bytes, at most %d are allowed", size, maxArguments)
	case len(p.Secrets) > maxSecrets:
		return fmt.Errorf("%d secrets, at most %d are allowed", len(p.Secrets), maxSecrets)
	}
	for _, list := range [][]string{p.Env, p.Inherited} {
		for _, s := range list {
			if strings.Index(s, "=") < 1 {
				return errors.New("a variable has no form KEY=value")
			}
		}
	}
	return checkReady(p.Ready)
}

// checkReady accepts only loopback URLs.
func checkReady(ready string) error {
	if ready == "" {
		return nil
	}
	u, err := url.Parse(ready)
	if err != nil {
		return errors.New("the URL of the readiness check cannot be parsed")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "http" || u.User != nil || u.Port() == "" || ip == nil || !ip.IsLoopback() {
		return errors.New("the URL of the readiness check has not the form http://127.0.0.1:PORT/PATH")
	}
	return nil
}

// fileName returns the base of a process's files. Process names may have slashes, or be too long
// for files.
func fileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, name[:min(len(name), 100)])
	return strings.TrimLeft(readable, ".") + "-" + hex.EncodeToString(sum[:6])
}
