package devices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	listTimeout = 20 * time.Second // loading a driver on demand takes seconds
	maxOutput   = 1 << 20
)

// List executes a command that lists devices, such as nvidia-smi, and parses its output. The
// program must be an absolute path. List returns after at most listTimeout, even if a driver hangs.
func List(ctx context.Context, command []string) ([]Device, error) {
	if len(command) == 0 {
		return nil, errors.New("list of devices: no command")
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var out, problem bounded
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &problem, time.Second
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not end within %v: %w", command[0], listTimeout, ctx.Err())
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", command[0], ctx.Err())
	case err != nil && strings.HasPrefix(out.text.String(), "No devices were found"):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", command[0], err, firstLine(out.text.String()+"\n"+problem.text.String()))
	case out.over:
		return nil, fmt.Errorf("%s prints more than %d bytes", command[0], maxOutput)
	}
	return Parse(out.text.String())
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), maxField)]
}

// bounded keeps the first maxOutput bytes of a program's output.
type bounded struct {
	text bytes.Buffer
	over bool
}

// Write implements io.Writer. It also accepts the bytes that it drops, so that the program ends by
// itself.
func (b *bounded) Write(p []byte) (int, error) {
	kept := min(len(p), maxOutput-b.text.Len())
	b.over = b.over || kept < len(p)
	b.text.Write(p[:kept])
	return len(p), nil
}
