package engines

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
	AnyListener    bool          // the answer counts whichever process gives it
	StartupTimeout time.Duration // from start to ready; 20 minutes by default
	StopGrace      time.Duration // from SIGTERM to SIGKILL; 30 seconds by default, 1 hour at most
	Secrets        []string      // values that never appear in last words
	// Keep leaves a process that runs as it is, whatever its command is. None is started.
	Keep bool
}

// Phase is a stage in the life of a process.
type Phase int

// The phases of a process.
const (
	Waiting      Phase = iota // it ended, and starts again after the back-off
	Starting                  // it runs and is not ready
	Running                   // it was ready
	Stopping                  // it got SIGTERM and has not ended
	Stopped                   // it does not run
	Failed                    // it cannot start, or was not ready in time; it starts again after the back-off
	Unresponsive              // it was ready, gives no answer and uses no CPU time; later it starts again
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
	Failures  int       // ends in a row by itself, without minutes of service between them
	Served    bool      // Waiting: it was ready before it ended
	Reason    string    // why it is not Running, for example "exit status 1", or why a wanted change has no effect
	LastWords string    // the end of the log of the process that ended last, at most 2 KiB
	Hash      string    // of the command that runs
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

// check returns why a process cannot be started.
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

// checkReady accepts URLs that reach this machine alone.
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

// fileName returns the name of a process's files without extension. Names may contain slashes and
// be longer than a file's name.
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
