package sandbox

const (
	// SpecFD delivers the Spec, as JSON.
	SpecFD = 3
	// ErrorFD receives the error if the program cannot start. Otherwise it closes without data.
	ErrorFD = 4
)

// Spec describes the container.
type Spec struct {
	Root     string            // an empty folder
	Layer    string            // an empty folder for files written over the machine's folders
	Program  string            // path on the machine, without symbolic links
	At       string            // path in the container
	Hostname string            // of the pod
	Files    map[string]string // small files below /etc, by absolute path
	Mounts   []Mount
	ReadOnly bool // the root is read-only

	Args   []string // the program and its arguments; the program is found in Env's PATH
	Env    []string
	Dir    string // working directory
	UID    int
	GID    int
	Groups []int
	// NoNewPrivileges disables set-user-ID programs.
	NoNewPrivileges bool
}

// Mount puts a file or folder of the machine into the container. Source has no symbolic links.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}
