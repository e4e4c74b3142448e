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

// Config is what a lab is made of. The zero value but for Dir is one cluster.
type Config struct {
	// Dir is the lab's folder, which Start empties and Down removes: kubeconfig, logs. Not below /run.
	Dir string
	// Clusters is how many run side by side, joined; 0 is 1.
	Clusters int
	// CRDs are files and folders to apply; nil is what CRDs returns.
	CRDs []string
	// ReleasesOf is a folder whose go.mod names the releases of Gateway API and the inference extension that CRDs are of; empty is the working
	// directory.
	ReleasesOf string
	// Audit has each API server note all requests, in the file AuditLog.
	Audit bool
	// Images are loaded besides those that every lab knows.
	Images []image.Image
	// Root is the repository, with what `make labs` builds in bin and .tools/bin; empty is the one that the working
	// directory is in.
	Root string
}

// Lab is a running lab.
type Lab struct {
	config Config
	cmd    *exec.Cmd
	life   io.Closer
	errs   *bytes.Buffer
}

// Start starts a lab and returns when it is ready. It ends with Down, or with this process. ctx only limits the start.
//
// As root, clients reach the clusters' API servers, pods and LoadBalancers from this process. Without root there would be
// nothing to reach, and Start says so: `unshare --map-root-user --net` makes a place where it works.
func Start(ctx context.Context, config Config) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab that this process can reach needs root: run it as root, or with unshare --map-root-user --net")
	}
	if config.Root == "" {
		root, err := Repository()
		if err != nil {
			return nil, err
		}
		config.Root = root
	}
	args := []string{"up", "--until-eof", "--dir", config.Dir, "--tools", filepath.Join(config.Root, ".tools", "bin"), "--clusters", strconv.Itoa(max(1, config.Clusters))}
	for _, path := range config.CRDs {
		args = append(args, "--crds", path)
	}
	if config.Audit {
		args = append(args, "--audit")
	}
	if config.ReleasesOf != "" {
		args = append(args, "--releases-of", config.ReleasesOf)
	}
	l := &Lab{config: config, cmd: exec.Command(filepath.Join(config.Root, "bin", "lab"), args...), errs: &bytes.Buffer{}}
	life, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a lab: %w", err)
	}
	l.life, l.cmd.Stderr = life, l.errs
	l.cmd.WaitDelay = 10 * time.Second // what a lab that failed leaves running for a moment may hold its output open
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a lab: %w", err)
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a lab: %w (make labs builds what it needs)", err)
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

// Kubeconfig is a file with a context for each cluster, lab1 being the current one.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.config.Dir, "kubeconfig") }

// Contexts are the names of the clusters and of their contexts.
func (l *Lab) Contexts() []string {
	names := make([]string, max(1, l.config.Clusters))
	for i := range names {
		names[i] = fmt.Sprintf("lab%d", i+1)
	}
	return names
}

// AuditLog is the file in which the API server of a cluster notes requests, as JSON lines of audit.k8s.io/v1 Events. See
// Config.Audit.
func (l *Lab) AuditLog(context string) string {
	return filepath.Join(l.config.Dir, context, "audit.log")
}

// Load lets images of pods stand for programs of this machine, from the next container on.
func (l *Lab) Load(images ...image.Image) error {
	return image.Open(filepath.Join(l.config.Dir, "images.yaml")).Load(images...)
}

// Down ends the lab and removes its folder. Nothing of it stays.
func (l *Lab) Down() error {
	_ = l.life.Close() // it may be closed already
	if err := l.cmd.Wait(); err != nil {
		return fmt.Errorf("end the lab: %w: %s", err, bytes.TrimSpace(l.errs.Bytes()))
	}
	if err := os.RemoveAll(l.config.Dir); err != nil {
		return fmt.Errorf("end the lab: %w", err)
	}
	return nil
}

// Repository is the folder of this repository that the working directory is in.
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
