package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(out)))), nil
}

// Envoy returns the path of Envoy: $ENVOY, or the path where make envoy installs it.
func Envoy(ctx context.Context) (string, error) {
	if path := os.Getenv("ENVOY"); path != "" {
		return path, nil
	}
	tree, err := root(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(tree, ".tools", "bin", "envoy")
	if _, err := os.Stat(path); err != nil {
		return "", errors.New("no Envoy: run make envoy, or set $ENVOY")
	}
	return path, nil
}

// Penstock builds the penstock binary into a folder. flags are further flags of go build.
// -trimpath, as in make test, compiles dependencies only once.
func Penstock(ctx context.Context, dir string, flags ...string) (string, error) {
	return Build(ctx, dir, "penstock", flags...)
}

// Build builds any program below cmd, as Penstock does.
func Build(ctx context.Context, dir, program string, flags ...string) (string, error) {
	tree, err := root(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, program)
	return path, build(ctx, tree, path, program, flags...)
}

func build(ctx context.Context, tree, path, program string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go",
		append(append([]string{"build", "-trimpath", "-o", path}, flags...), "./cmd/"+program)...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, text)
	}
	return nil
}

// Earlier builds penstock from an earlier commit into a folder. The subfolder tree gets the
// commit's source tree.
func Earlier(ctx context.Context, dir, commit string) (string, error) {
	here, err := root(ctx)
	if err != nil {
		return "", err
	}
	archive, tree := filepath.Join(dir, "tree.tar"), filepath.Join(dir, "tree")
	for _, args := range [][]string{
		{"git", "-C", here, "archive", "--output", archive, commit}, {"mkdir", tree},
		{"tar", "-xf", archive, "-C", tree},
	} {
		if text, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "",
				fmt.Errorf("the tree of commit %s, which the history of this clone must have: %w\n%s", commit, err,
					text)
		}
	}
	path := filepath.Join(dir, "penstock")
	return path, build(ctx, tree, path, "penstock")
}
