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

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/xds/wheel"
)

// MinVersion is the oldest supported Envoy. conformance/tools/envoy.sh repeats it.
const MinVersion = "1.40"

// Binary is a supported Envoy binary.
type Binary struct {
	Path    string
	Version string // such as "1.40.0"
}

// ErrNoEnvoy is the error of Find if there is no supported Envoy.
var ErrNoEnvoy = errors.New("no Envoy " + MinVersion + " or newer found: run `penstock envoy install` " +
	"(in the source tree: `make envoy`), or name one with the environment variable ENVOY")

// Find returns the first supported Envoy of: $ENVOY, `envoy` on PATH, `.tools/bin/envoy` in the
// working folder or above, `envoy` beside this program, `.tools/bin/envoy` above this program, and
// the Envoy of `penstock envoy install`. If $ENVOY is set, Find tries no other binary. If all fail,
// the error is an ErrNoEnvoy that lists them.
func Find(ctx context.Context) (Binary, error) {
	if named := os.Getenv("ENVOY"); named != "" {
		found, err := inspect(ctx, named)
		if err != nil {
			return Binary{},
				fmt.Errorf(
					"the environment variable ENVOY: %w; name the program of an Envoy %s or newer there, or unset it",
					err, MinVersion)
		}
		return found, nil
	}
	var skipped error
	for _, path := range candidates() {
		found, err := inspect(ctx, path)
		if err == nil {
			return found, nil
		}
		skipped = errors.Join(skipped, err)
	}
	if skipped != nil {
		return Binary{}, fmt.Errorf("%w (%w)", ErrNoEnvoy, skipped)
	}
	return Binary{}, ErrNoEnvoy
}

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
	if path, err := wheel.Path(); err == nil && isFile(path) {
		paths = append(paths, path)
	}
	return paths
}

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
	info, err := new(filesystem.Disk).Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Envoy prints this line since 1.10.
var versionLine = regexp.MustCompile(`version: [0-9a-f]+/((\d+)\.(\d+)\.[^/]+)/`)

func inspect(ctx context.Context, path string) (Binary, error) {
	path, err := exec.LookPath(path)
	if err != nil {
		return Binary{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return Binary{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Binary{}, fmt.Errorf("%s --version: %w", path, err)
	}
	match := versionLine.FindStringSubmatch(string(out))
	if match == nil {
		return Binary{}, fmt.Errorf("%s does not look like an Envoy: its --version has no version", path)
	}
	if !supported(match[2], match[3]) {
		return Binary{}, fmt.Errorf("%s is Envoy %s, too old: %s or newer is needed", path, match[1], MinVersion)
	}
	return Binary{Path: path, Version: match[1]}, nil
}

func supported(major, minor string) bool {
	var minMajor, minMinor int
	if _, err := fmt.Sscanf(MinVersion, "%d.%d", &minMajor, &minMinor); err != nil {
		return false
	}
	ma, errMajor := strconv.Atoi(major)
	mi, errMinor := strconv.Atoi(minor)
	if errMajor != nil || errMinor != nil {
		return false
	}
	return ma > minMajor || ma == minMajor && mi >= minMinor
}
