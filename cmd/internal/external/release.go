package external

import (
	"runtime/debug"
	"strings"
)

// VersionHeader of a response has the release of the program that sent it, such as v0.1.2.
const VersionHeader = "x-penstock-version"

// Release returns the release that this program was built from; "(devel)" for a build outside of a source tree.
func Release() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// minor returns a release's minor version, such as v0.1; "" if it has none.
func minor(release string) string {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 || !strings.HasPrefix(parts[0], "v") {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// compatible reports whether two programs may work together: their minor releases are equal, or one of them is not known.
func compatible(a, b string) bool {
	a, b = minor(a), minor(b)
	return a == b || a == "" || b == ""
}
