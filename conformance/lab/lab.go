package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/image"
)

// Config configures a lab. Only Dir is required; the default is one cluster.
type Config struct {
	// Dir is the lab's folder for the kubeconfig and logs. Start empties it and Down removes it. It
	// must not be below /run.
	Dir string
	// Clusters is the number of clusters, which reach each other; 0 means 1.
	Clusters int
	// CRDs are files and folders to apply; nil means the result of function CRDs.
	CRDs []string
	// ReleasesOf is a folder whose go.mod selects the CRDs' versions; "" means the working
	// directory.
	ReleasesOf string
	// Audit makes the API servers log all requests to AuditLog.
	Audit bool
	// Images are loaded in addition to the predefined images.
	Images []image.Image
	// Root is the repository, with the programs of `make labs`; "" means the result of Repository.
	Root string
}

// Lab is a running lab.
type Lab struct {
	config Config
	cmd    *exec.Cmd
	life   io.Closer
	errs   *bytes.Buffer
}

// Start starts a lab and returns when it is ready. The lab ends with Down, or with this process.
// ctx only limits the start. Start needs root; `unshare --map-root-user --net` suffices.
func Start(ctx context.Context, config Config) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil,
			errors.New(
				"a lab that this process can reach needs root: run it as root, or with unshare --map-root-user --net")
	}
	if config.Root == "" {
		root, err := Repository()
		if err != nil {
			return nil, err
		}
		config.Root = root
	}
	args := []string{"up", "--until-eof", "--dir", config.Dir, "--tools", filepath.Join(config.Root, ".tools", "bin"),
		"--clusters", strconv.Itoa(max(1, config.Clusters))}
	for _, path := range config.CRDs {
		args = append(args, "--crds", path)
	}
	if config.Audit {
		args = append(args, "--audit")
	}
	if config.ReleasesOf != "" {
		args = append(args, "--releases-of", config.ReleasesOf)
	}
	l := &Lab{config: config, cmd: exec.Command(filepath.Join(config.Root, "bin", "lab"), args...),
		errs: &bytes.Buffer{}}
	life, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a lab: %w", err)
	}
	l.life, l.cmd.Stderr = life, l.errs
	l.cmd.WaitDelay = 10 * time.Second // the output may stay open for a moment after a failed lab has ended
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a lab: %w", err)
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a lab: %w (build its programs with make labs)", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.life.Close() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if !stop() || err != nil || !strings.HasPrefix(line, "export ") {
		return nil, errors.Join(fmt.Errorf("start a lab: %s", strings.TrimSpace(line)), ctx.Err(), l.Down())
	}
	if err := l.Load(config.Images...); err != nil {
		return nil, errors.Join(err, l.Down())
	}
	return l, nil
}

// Kubeconfig returns the path of a file with a context for each cluster. Context lab1 is current.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.config.Dir, "kubeconfig") }

// Contexts returns the names of the clusters' contexts, which are also the clusters' names.
func (l *Lab) Contexts() []string {
	names := make([]string, max(1, l.config.Clusters))
	for i := range names {
		names[i] = fmt.Sprintf("lab%d", i+1)
	}
	return names
}

// AuditLog returns the path of a cluster's audit log: JSON lines of audit.k8s.io/v1 Events.
func (l *Lab) AuditLog(context string) string {
	return filepath.Join(l.config.Dir, context, "audit.log")
}

// Load maps images of pods to programs of this machine, for containers that start from now on.
func (l *Lab) Load(images ...image.Image) error {
	return image.Open(filepath.Join(l.config.Dir, "images.yaml")).Load(images...)
}

// Down ends the lab and removes its folder.
func (l *Lab) Down() error {
	_ = l.life.Close() // already closed if Down was called before
	if err := l.cmd.Wait(); err != nil {
		return fmt.Errorf("end the lab: %w: %s", err, bytes.TrimSpace(l.errs.Bytes()))
	}
	if err := os.RemoveAll(l.config.Dir); err != nil {
		return fmt.Errorf("end the lab: %w", err)
	}
	return nil
}

// Repository returns the root of the repository that contains the working directory.
func Repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "conformance", "lab")); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", fmt.Errorf("the working directory is not inside Penstock's repository: set Config.Root")
		}
	}
}
