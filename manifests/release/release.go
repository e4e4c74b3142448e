package release

import "runtime/debug"

// version is set by the linker: -X
// github.com/penstock-project/penstock/manifests/release.version=v0.1.0
var version string

// These are the modules of the APIs that Penstock implements.
const (
	GatewayAPI         = "sigs.k8s.io/gateway-api"
	InferenceExtension = "sigs.k8s.io/gateway-api-inference-extension"
)

// Version returns the version of this program, such as v0.1.0; "(devel)" for a build outside of a
// source tree.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Of returns the version of a module in this program, such as v1.6.3; "" if the module is not
// linked in.
func Of(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}
