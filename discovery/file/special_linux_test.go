package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link to /proc would lead to the whole machine, through each process. The Reader must not enter
// it, and a finding must name the link.
func TestFolder_FileSystemsOfTheKernelAreNotEntered(t *testing.T) {
	dir := folderOf(t, map[string]string{"a.yaml": gatewayNamed("a"), "z.yaml": gatewayNamed("z")})
	want := []string{}
	for link, to := range map[string]string{"p": "/proc", "self": "/proc/self/task", "s": "/sys"} {
		if info, err := os.Stat(to); err != nil || !info.IsDir() {
			continue
		}
		if kernel, err := kernelFileSystem(to); err != nil || kernel == "" {
			continue // this file system is not mounted
		}
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		want = append(want, link)
	}
	if len(want) == 0 {
		t.Skip("neither /proc nor /sys is mounted")
	}
	r := newReading(t, dir)
	r.disk.read = func(path string) ([]byte, error) {
		if filepath.Dir(path) != dir {
			t.Errorf("%s is read", path)
		}
		return readRegular(path)
	}
	gateways, found := r.load(t)
	if gateways != "a z" {
		t.Errorf("Gateways %q, want a and z", gateways)
	}
	for _, link := range want {
		if !strings.Contains(found, filepath.Join(dir, link)) {
			t.Errorf("want a finding that names %s, got:\n%s", link, found)
		}
	}
	if n := strings.Count(found, "a file system of the kernel"); n != len(want) || strings.Count(found, "\n") != n {
		t.Errorf("%d links are named, want %d and nothing else: %.2000s", n, len(want), found)
	}
}
