package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/lab"
)

// Main runs the tests of a package in the lab that start returns. It returns the exit status for
// TestMain. after, if not nil, is called once the lab has ended.
func Main(m *testing.M, start func(ctx context.Context, dir string) (*lab.Lab, error),
	after func(dir string) error) int {
	code, err := run(m, start, after)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, start func(context.Context, string) (*lab.Lab, error), after func(string) error) (int, error) {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	l, err := start(ctx, dir)
	if err != nil {
		if l != nil {
			err = errors.Join(err, l.Down())
		}
		return 1, err
	}
	code := m.Run()
	err = l.Down()
	if err == nil && after != nil {
		err = after(dir)
	}
	return code, err
}
