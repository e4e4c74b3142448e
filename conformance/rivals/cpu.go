package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpu returns the CPU time of a process, alone and with its descendants. Both are 0 without /proc.
func cpu(pid int) (own, total time.Duration) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		if fields := words(task, "schedstat"); len(fields) > 0 { // nanoseconds on a CPU
			ns, _ := strconv.ParseInt(fields[0], 10, 64)
			own += time.Duration(ns)
		}
		for _, child := range words(task, "children") {
			if pid, err := strconv.Atoi(child); err == nil {
				_, descendants := cpu(pid)
				total += descendants
			}
		}
	}
	return own, own + total
}

func words(folder, file string) []string {
	text, _ := os.ReadFile(filepath.Join(folder, file)) // text is empty if the thread has ended
	return strings.Fields(string(text))
}
