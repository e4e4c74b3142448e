package main

import (
	"fmt"
	"os"
)

func main() {
	figures, failed, err := parse(os.Stdin)
	if err == nil {
		err = write(os.Stdout, figures)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	case failed:
		fmt.Fprintln(os.Stderr, "benchtable: a benchmark failed; run go test -bench in its package to see why")
		os.Exit(1)
	case len(figures) == 0:
		fmt.Fprintln(os.Stderr, "benchtable: no benchmark ran")
		os.Exit(1)
	}
}
