package sandbox

const (
	// SpecFD delivers the Spec, as JSON.
	SpecFD = 3
	// ErrorFD receives the error if the program cannot start. If it starts, ErrorFD closes without
	// data.
	ErrorFD = 4
)

// Spec describes the container.
type Spec struct {
	Root     string // an empty folder
	Layer    string // an empty folder for the container's writes to the machine's folders
	Program  string // path on the machine, without symbolic links
	At       string // path in the container
	Hostname string
	Files    map[string]string // small files below /etc, by absolute path
	Mounts   []Mount
	ReadOnly bool // the root is read-only

	Args   []string // the program and its arguments; the program is searched in Env's PATH
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
