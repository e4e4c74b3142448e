package external

import (
	"strings"

	"github.com/penstock-project/penstock/manifests/release"
)

// VersionHeader is the response header with the release of its sender, such as v0.1.2.
const VersionHeader = "x-penstock-version"

// Release returns the release of this build, or "(devel)" outside of a source tree.
func Release() string { return release.Version() }

func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || !strings.HasPrefix(parts[0], "v") {
		return ""
	}
	return parts[0] + "." + parts[1]
}

func compatible(a, b string) bool {
	a, b = minor(a), minor(b)
	return a == b || a == "" || b == ""
}
