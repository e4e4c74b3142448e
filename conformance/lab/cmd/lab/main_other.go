//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "lab: Linux is required: a lab uses network namespaces")
	os.Exit(1)
}
