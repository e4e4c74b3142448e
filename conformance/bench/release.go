package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func releaseArchive(dist string) (path, version string, err error) {
	end := "-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	found, err := filepath.Glob(filepath.Join(dist, "penstock-*"+end))
	if err != nil || len(found) != 1 {
		return "", "", errors.Join(fmt.Errorf("%s has %d archives for this machine", dist, len(found)), err)
	}
	return found[0], strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "penstock-"), end), nil
}

func releasedPlatforms(dist, version string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dist, "penstock-"+version+"-*.tar.gz"))
	if err != nil {
		return "", err
	}
	var list []string
	for _, path := range found {
		name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), "penstock-"+version+"-")
		list = append(list, strings.Replace(name, "-", "/", 1))
	}
	return strings.Join(list, " "), nil
}

// measureSame rebuilds the release in another folder, at another time, with another umask and time
// zone.
func measureSame(ctx context.Context, c config, out report) error {
	_, version, err := releaseArchive(c.dist)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	second := filepath.Join(dir, "dist")
	platforms, err := releasedPlatforms(c.dist, version)
	if err != nil {
		return err
	}
	script := `umask 077; git clone -q "$0" "$1/clone"; cd "$1/clone"; git checkout -q "$2"
exec make release VERSION="$3" PLATFORMS="$4" DIST="$1/dist" TOOLS="$1/tools"`
	commit, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	cmd := exec.CommandContext(ctx, "bash", "-ec", script, root, dir, strings.TrimSpace(string(commit)), version,
		platforms)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "GOPROXY=off", "TZ=Pacific/Kiritimati", "MAKEFLAGS=")
	if err := cmd.Run(); err != nil {
		return err
	}
	differing, files, err := differingBytes(c.dist, second)
	if err != nil {
		return err
	}
	out("release_same", "", float64(differing))
	out("release_same", "files", float64(files))
	if differing > 0 {
		return errors.New("the release cannot be built again: the lines above name the files")
	}
	return nil
}

// differingBytes compares two folders without signatures. All bytes of a file in only one folder
// differ.
func differingBytes(a, b string) (differing, files int, err error) {
	names := map[string]bool{}
	for _, dir := range []string{a, b} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".sig") {
				name, _ := filepath.Rel(dir, path)
				names[name] = true
			}
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	for name := range names {
		one, err := os.ReadFile(filepath.Join(a, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, err
		}
		other, err := os.ReadFile(filepath.Join(b, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, err
		}
		if bytes.Equal(one, other) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s differs\n", name)
		differing += max(len(one), len(other)) - min(len(one), len(other))
		for i := range min(len(one), len(other)) {
			if one[i] != other[i] {
				differing++
			}
		}
	}
	return differing, len(names), nil
}

const withoutGo = "/usr/bin:/bin:/usr/sbin:/sbin"

// measureStart runs the release's demo with loopback as its only network, and without Go, another
// Envoy or users' files.
func measureStart(ctx context.Context, c config, out report) error {
	archive, version, err := releaseArchive(c.dist)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rel") // socket paths have a maximum length
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began := time.Now()
	if text, err := exec.CommandContext(ctx, "tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, text)
	}
	unpacked := time.Since(began)
	folder := filepath.Join(dir, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
	p, err := startIsolated(dir, filepath.Join(folder, "penstock"), "demo")
	if err != nil {
		return err
	}
	defer p.stop()
	err = eventually(ctx, func() error {
		if streamedAnswer(p.output()) {
			return nil
		}
		return errors.Join(errors.New("no streamed answer yet"), p.Running())
	})
	if err != nil {
		return fmt.Errorf("demo of %s: %w\n%s", version, err, p.output())
	}
	out("release_start", "", time.Since(began).Seconds())
	out("release_start", "unpack", unpacked.Seconds())
	return nil
}

// startIsolated runs a program with loopback as its only network, and without Go. home is outside
// of source trees, which may have an Envoy.
func startIsolated(home, program string, args ...string) (*program, error) {
	for _, dir := range filepath.SplitList(withoutGo) {
		for _, name := range []string{"go", "envoy"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return nil, fmt.Errorf("%s has %s: this machine shows nothing about one without it", dir, name)
			}
		}
	}
	script := `cd "$0" && ip link set lo up && exec env -i HOME="$0" TMPDIR="$0" PATH=` + withoutGo + ` "$@"`
	return start("unshare", append([]string{"-rn", "sh", "-c", script, home, program}, args...)...)
}

func streamedAnswer(output string) bool {
	_, after, found := strings.Cut(output, "A streamed answer")
	return found && strings.Contains(after, "✓")
}

func measureSize(ctx context.Context, c config, out report) error {
	archive, _, err := releaseArchive(c.dist)
	if err != nil {
		return err
	}
	program := filepath.Base(strings.TrimSuffix(archive, ".tar.gz")) + "/penstock"
	text, err := exec.CommandContext(ctx, "tar", "-xzOf", archive, program).Output()
	if err != nil {
		return fmt.Errorf("tar: %w", err)
	}
	out("binary_size", "", float64(len(text))/(1<<20))
	return nil
}
