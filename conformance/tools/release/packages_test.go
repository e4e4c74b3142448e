package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// An unpacked .deb has a program that runs, Envoy in the program's folder, and a systemd unit that
// starts the program as its own user.
func TestPackages_DebUnpacksIntoAProgramWithEnvoyAndAUnit(t *testing.T) {
	files := released(t, prepared(t))
	name := "penstock_0.1.0_" + runtime.GOARCH + ".deb"
	if files[name] == nil {
		t.Fatalf("no %s, want it", name)
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed: the package is written and not unpacked")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, files[name], 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("dpkg-deb", "-x", path, filepath.Join(dir, "root"))
	run("dpkg-deb", "-e", path, filepath.Join(dir, "control"))
	if out := run(filepath.Join(dir, "root/usr/lib/penstock/penstock")); out != "it runs\n" {
		t.Errorf("the program prints %q, want %q", out, "it runs\n")
	}
	for name, want := range map[string]string{
		"root/usr/lib/penstock/envoy":                            "#!/bin/sh",
		"root/usr/lib/systemd/system/penstock.service":           " " + homepage + "/blob/v0.1.0/docs/index.md\n",
		"root/usr/share/doc/penstock/README.md":                  "\npenstock status --http 127.0.0.1:9190 ",
		"root/usr/share/bash-completion/completions/penstock":    "penstock completion bash",
		"root/usr/share/zsh/vendor-completions/_penstock":        "penstock completion zsh",
		"root/usr/share/fish/vendor_completions.d/penstock.fish": "penstock completion fish",
		"root/usr/lib/sysusers.d/penstock.conf":                  "\nu penstock ",
		"root/usr/share/doc/penstock/copyright":                  "Apache License",
		"root/usr/share/doc/penstock/LICENSES-of-modules.txt":    "A license.",
		"control/control":  "\nArchitecture: " + runtime.GOARCH + "\n",
		"control/preinst":  "useradd",
		"control/postinst": "systemctl daemon-reload",
		"control/prerm":    "remove | 0",
		"control/postrm":   "systemctl daemon-reload",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: want %q, got %v:\n%.300s", name, want, err, text)
		}
	}
	control := run("dpkg-deb", "-f", path, "Pre-Depends", "Depends")
	if control != "Pre-Depends: passwd\nDepends: libc6 (>= 2.31)\n" {
		t.Errorf("dependencies: got\n%s\nwant useradd before preinst, and the glibc of Envoy", control)
	}
	if to, err := os.Readlink(filepath.Join(dir, "root/usr/bin/penstock")); err != nil ||
		to != "/usr/lib/penstock/penstock" {
		t.Errorf(`/usr/bin/penstock leads to %q, %v, want "/usr/lib/penstock/penstock"`, to, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "root/etc/penstock/config")); err != nil || !info.IsDir() {
		t.Errorf("the folder for the configuration: got %v, want it", err)
	}
	for _, script := range []string{"preinst", "postinst", "prerm", "postrm"} {
		run("sh", "-n", filepath.Join(dir, "control", script))
	}
}

// systemd waits longer for the end of requests (TimeoutStopSec) than penstock does.
func TestPackages_UnitStopsWithinItsTime(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "manifests/release/linux/penstock.service"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{
		"ExecStart=/usr/bin/penstock up -f /etc/penstock/config --state /var/lib/penstock --http 127.0.0.1:9190",
		"KillMode=mixed", "TimeoutStopSec=60", "LimitNOFILE=262144", "Restart=always",
		"ExecReload=/bin/kill -USR2 $MAINPID",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the unit: got\n%s\nwant the line %s", text, want)
		}
	}
	if slices.Contains(lines, "PrivateDevices=yes") {
		t.Error("the unit hides devices: want GPUs that engines find")
	}
}

func TestPackages_RPMAndFormulaAreOfThisRelease(t *testing.T) {
	files := released(t, prepared(t))
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	rpm := files["penstock-0.1.0-1."+arch+".rpm"]
	if len(rpm) < 100 || string(rpm[:4]) != "\xed\xab\xee\xdb" { // an RPM begins with these bytes
		t.Errorf("RPM for %s: got %d bytes, want one", arch, len(rpm))
	}
	for _, want := range []string{"glibc", "(shadow-utils or shadow)", "_penstock", "daemon-reload"} {
		if !strings.Contains(string(rpm), want) { // an RPM's header is not compressed
			t.Errorf("RPM for %s: want %q in its header", arch, want)
		}
	}
	formula := string(files["penstock.rb"])
	for _, p := range published {
		name := "penstock-0.1.0-" + dashed(p) + ".tar.gz"
		if !strings.Contains(formula, "/releases/download/v0.1.0/"+name+"\"\n      sha256 \""+sum(files[name])+"\"\n") {
			t.Errorf("the formula: want %s with its checksum, got\n%s", name, formula)
		}
	}
}
