//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "lab: network namespaces are needed, which only Linux has")
	os.Exit(1)
}
