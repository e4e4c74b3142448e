package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// opens lists functions that may block on a file system, or read without end.
var opens = map[string][]string{
	"os":        {"Open", "OpenFile", "ReadFile", "ReadDir", "Stat", "Lstat", "DirFS"},
	"tls":       {"LoadX509KeyPair"},
	"clientcmd": {"LoadFromFile", "BuildConfigFromFlags", "NewNonInteractiveDeferredLoadingClientConfig"},
	"access":    {"NewFromFile"},
	"ioutil":    {"ReadFile", "ReadDir"},
}

// opensItself lists the files that call the functions in opens, with the kind of path. No path is a
// user's.
var opensItself = map[string]string{
	"discovery/filesystem/filesystem.go":           "the mechanism",
	"discovery/file/disk.go":                       "within filesystem.Do",
	"discovery/file/state.go":                      "the state folder",
	"discovery/hostname/state.go":                  "the state folder",
	"discovery/statefile/disk.go":                  "the state folder",
	"discovery/statefile/statefile.go":             "the state folder",
	"discovery/status/writer.go":                   "the state folder",
	"discovery/engine/processes/lock.go":           "the state folder",
	"discovery/engine/processes/logfile.go":        "the state folder",
	"discovery/engine/processes/record.go":         "the state folder",
	"discovery/engine/processes/recorded.go":       "the state folder",
	"discovery/engine/processes/supervisor.go":     "the state folder",
	"discovery/engine/processes/process_linux.go":  "files of the kernel, in /proc",
	"discovery/engine/processes/listener_linux.go": "files of the kernel, in /proc",
	"discovery/engine/processes/scope.go":          "files of the kernel, in /proc and /run",
	"cmd/penstock/internal/app/pages.go":           "the path of a socket that it makes at the start",
	"cmd/penstock/internal/app/engines.go":         "the state folder",
	"cmd/penstock/down.go":                         "the state folder",
	"cmd/penstock/logs.go":                         "the state folder",
	"multicluster/set/identity.go":                 "the state folder",
	"cmd/penstock/internal/state/state.go":         "the state folder",
	"discovery/engine/fetch/blob.go":               "the cache of models",
	"discovery/engine/fetch/cached.go":             "the cache of models",
	"discovery/engine/fetch/repository.go":         "the cache of models",
	"discovery/engine/fetch/space.go":              "the cache of models",
	"discovery/engine/devices/host_linux.go":       "files of the kernel, in /proc and /sys",
	"discovery/engine/install/lock.go":             "the state folder",
	"discovery/engine/memory/read.go":              "within filesystem.Do",
	"picker/usage/database.go":                     "the state folder",
	"picker/usage/journal.go":                      "the state folder",
	"picker/usage/keeper.go":                       "the state folder",
	"xds/supervisor/envoy.go":                      "the state folder",
	"xds/wheel/install.go":                         "the cache of this program",
	"cmd/penstock/explain.go":                      "the state folder",
	"cmd/penstock/kubernetes.go":                   "a file of each pod",
	"cmd/penstock/drain.go":                        "this program",
	"cmd/penstock/support.go":                      "a command that ends; it creates the file",
	"cmd/penstock/clusters_join.go":                "a command that ends; its input may be a pipe",
	"cmd/penstock/replay.go":                       "a command that ends; its input may be a pipe",
	"cmd/penstock/internal/app/clock_faults.go":    "tests alone",
	"xds/authority/file.go":                        "the state folder",
	"xds/xdstest/envoytest/binary.go":              "tests alone",
	"cmd/penstock/internal/app/statefolder.go":     "the state folder",
}

// discovery/filesystem reads users' files, so that a FIFO or a dead mount blocks nothing.
func TestLayout_FilesOfUsersAreReadWithinBounds(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root, s.file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := selector.X.(*ast.Ident)
			if !ok || !slices.Contains(opens[pkg.Name], selector.Sel.Name) {
				return true
			}
			if used[s.file] = true; opensItself[s.file] == "" {
				t.Errorf(
					"%s: %s.%s: read what a user names by discovery/filesystem, or state in opensItself whose "+
						"file it is",
					set.Position(n.Pos()), pkg.Name, selector.Sel.Name)
			}
			return true
		})
	}
	for file := range opensItself {
		if !used[file] {
			t.Errorf("%s is in opensItself and opens nothing", file)
		}
	}
}
