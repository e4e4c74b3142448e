package install

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// probe is a Python program. It prints Python's version, or the module that is missing for a
// virtual environment with pip.
const probe = `import sys
try:
    import venv, ensurepip
    print("%d.%d" % sys.version_info[:2])
except ImportError as e:
    print("lacks", e.name)`

// Python returns the function Machine.Python for this machine.
func Python(ctx context.Context) func(program string) (string, error) {
	return func(program string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, quick)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, "-c", probe).Output()
		if err != nil {
			return "", fmt.Errorf("does not start: %w", err)
		}
		text := strings.TrimSpace(string(out))
		if lacks, ok := strings.CutPrefix(text, "lacks "); ok {
			return "", errors.New("has no module " + lacks)
		}
		return text, nil
	}
}
