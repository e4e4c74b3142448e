package sandbox

// Descriptors that a container's process starts with.
const (
	// SpecFD holds the Spec, as JSON.
	SpecFD = 3
	// ErrorFD takes what went wrong before the program ran; it ends, empty, when the program does run.
	ErrorFD = 4
)

// Spec is what a container's process becomes.
type Spec struct {
	Root     string            // an empty folder of the lab, for the container's root
	Layer    string            // an empty folder of the lab, for what is written over the machine's own folders
	Program  string            // a program of the machine, a path without symbolic links
	At       string            // where that is in the container
	Hostname string            // of the pod
	Files    map[string]string // small files below /etc, by absolute path
	Mounts   []Mount
	ReadOnly bool // whether the root is read-only

	Args   []string // the program and its arguments; the program is looked for in Env's PATH
	Env    []string
	Dir    string // where it starts
	UID    int
	GID    int
	Groups []int
	// NoNewPrivileges keeps set-user-ID programs from working.
	NoNewPrivileges bool
}

// Mount shows a file or folder of the lab in the container. Source has no symbolic links in it.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}
