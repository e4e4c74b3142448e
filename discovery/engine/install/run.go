package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Output receives the output of commands, and a line before each command.
type Output struct{ Out, Err io.Writer }

// Run executes the plan. installed is false if the engine was already installed. After an error,
// the completed steps stay, and the next Run continues.
func (p *Plan) Run(ctx context.Context, o Output) (installed bool, err error) {
	if p.Link == "" {
		return true, p.run(ctx, o)
	}
	held, err := lock(p.folder, p.name)
	if err != nil {
		return false, err
	}
	defer func() { _ = held.Close() }()
	before, err := os.Readlink(p.Link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%s is no link of this command: remove it: %w", p.Link, err)
	}
	if before == filepath.Base(p.target) && p.usable(ctx) {
		return false, nil
	}
	if err := p.room(); err != nil {
		return false, err
	}
	if err := p.run(ctx, o); err != nil {
		return false, err
	}
	if err := p.link(); err != nil {
		return false, err
	}
	p.sweep(before)
	return true, nil
}

// usable reports whether the Python of an installation still starts. A system update may have
// removed a library that Python needs.
func (p *Plan) usable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	python := filepath.Join(p.target, "bin", "python")
	_, err := exec.LookPath(filepath.Join(p.target, "bin", p.Program))
	return err == nil && exec.CommandContext(ctx, python, "-c", "").Run() == nil
}

func (p *Plan) room() error {
	free, err := p.free(p.folder)
	if err != nil {
		return fmt.Errorf("folder of engines: %w", err)
	}
	if _, err := os.Readlink(filepath.Join(p.target, "bin", "python")); err == nil {
		return nil // an interrupted installation continues
	}
	if free < p.bytes {
		return fmt.Errorf("%s needs up to %d GiB in %s, which has %d GiB: make room, or name another folder with "+
			"--state", p.name, p.bytes/gib, p.folder, free/gib)
	}
	return nil
}

func (p *Plan) run(ctx context.Context, o Output) error {
	fmt.Fprintln(o.Err, "installing", p.About)
	for i, s := range p.Steps {
		title := s.line()
		if s.Path != "" {
			title = "write " + s.Path
		}
		fmt.Fprintf(o.Err, "[%d/%d] %s\n", i+1, len(p.Steps), title)
		if err := s.run(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) run(ctx context.Context, o Output) error {
	if s.Path != "" {
		if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(s.Path, []byte(s.Content), fs.FileMode(s.Mode))
	}
	limited, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	end := &tail{}
	cmd := exec.CommandContext(limited, s.Command[0], s.Command[1:]...)
	cmd.Stdout, cmd.Stderr = o.Out, io.MultiWriter(o.Err, end) // pip prints its progress to Stdout
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("it was interrupted: the same command continues")
	case limited.Err() != nil:
		return fmt.Errorf("%s has not ended within %v: the same command continues", s.line(), s.Limit)
	case unreachable.MatchString(string(end.text)):
		return fmt.Errorf("pip reaches no package index: connect this machine, or name a mirror with PIP_INDEX_URL; " +
			"the same command continues")
	}
	return fmt.Errorf("%s: %w: correct what it prints above; the same command continues", s.line(), err)
}

// unreachable matches the errors that pip prints without a network.
var unreachable = regexp.MustCompile(`(?i)NewConnectionError|Failed to establish|name resolution|ConnectTimeout|` +
	`Connection refused|ProxyError|Network is unreachable`)

// tail is an io.Writer that keeps the last tailSize bytes.
type tail struct{ text []byte }

const tailSize = 16 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - tailSize; n > 0 {
		t.text = append([]byte(nil), t.text[n:]...)
	}
	return len(p), nil
}

// link atomically creates the link that Find follows.
func (p *Plan) link() error {
	next := p.Link + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(p.target), next); err != nil {
		return err
	}
	return os.Rename(next, p.Link)
}

// sweep removes interrupted installations of the engine. It keeps the previous installation
// (before), because servers may still run from it.
func (p *Plan) sweep(before string) {
	others, _ := filepath.Glob(filepath.Join(p.folder, "."+p.name+"-*"))
	for _, path := range others {
		if path != p.target && filepath.Base(path) != before && !strings.HasSuffix(path, lockEnd) {
			_ = os.RemoveAll(path)
		}
	}
}
