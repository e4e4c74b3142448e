package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// directives are the allowed systemd directives: systemd ignores unknown ones, and starts the
// service.
var directives = map[string][]string{
	"Unit": {"After", "Description", "Documentation", "StartLimitIntervalSec", "Wants"},
	"Service": {
		"AmbientCapabilities", "CapabilityBoundingSet", "EnvironmentFile", "ExecReload", "ExecStart", "ExecStop",
		"Group", "KillMode", "LimitNOFILE", "LockPersonality", "NoNewPrivileges", "PrivateDevices", "PrivateTmp",
		"ProtectControlGroups", "ProtectHome", "ProtectKernelModules", "ProtectKernelTunables", "ProtectSystem",
		"Restart", "RestartSec", "RestrictSUIDSGID", "StateDirectory", "StateDirectoryMode", "TasksMax",
		"TimeoutStopSec", "UMask", "User", "WorkingDirectory",
	},
	"Install": {"WantedBy"},
}

type unit struct {
	name, text string
	directives [][3]string // section, name, value
}

func parseUnit(name, text string) unit {
	u, section := unit{name: name, text: text}, ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		u.directives = append(u.directives, [3]string{section, key, value})
	}
	return u
}

func (u unit) get(name string) (values []string) {
	for _, d := range u.directives {
		if d[1] == name {
			values = append(values, d[2])
		}
	}
	return values
}

func units(t *testing.T) []unit {
	t.Helper()
	var all []unit
	for _, p := range read(t) {
		for _, b := range p.Blocks {
			if b.Lang == "ini" {
				all = append(all, parseUnit(b.Arg, b.Text))
			}
		}
	}
	const packaged = "manifests/release/linux/penstock.service"
	text, err := os.ReadFile(filepath.Join(Root, packaged))
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, parseUnit(filepath.Base(packaged), string(text)))
	if len(all) != 3 {
		t.Fatalf("got %d units, want 3: penstock-serve, envoy, and the packages' own", len(all))
	}
	return all
}

var program = regexp.MustCompile(`(?m)(^Exec\w+=)/\S+`)

func TestDocs_UnitsAreValid(t *testing.T) {
	flags, names, dir := referenceOfCommands(t), []string{}, t.TempDir()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("without systemd-analyze only directives and commands are checked")
	}
	for _, u := range units(t) {
		if slices.Contains(names, u.name) {
			t.Errorf("%s: two units have this name, and one would replace the other", u.name)
		}
		names = append(names, u.name)
		for _, d := range u.directives {
			if !slices.Contains(directives[d[0]], d[1]) {
				t.Errorf("%s: got %s in [%s], which is not in the list of directives", u.name, d[1], d[0])
			}
		}
		commands := slices.Concat(u.get("ExecStart"), u.get("ExecStop"))
		if len(commands) == 0 {
			t.Errorf("%s: got no ExecStart, want one", u.name)
		}
		for _, command := range commands {
			args := strings.Fields(command)
			if args[0] = filepath.Base(args[0]); args[0] != "envoy" {
				checkCommand(t, u.name, flags, args)
			}
		}
		if analyze == "" {
			continue
		}
		path := filepath.Join(dir, u.name) // /bin/sh replaces programs, which are not installed here
		if err := os.WriteFile(path, []byte(program.ReplaceAllString(u.text, "${1}/bin/sh")), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
		if err != nil || strings.Contains(string(out), u.name) {
			t.Errorf("systemd-analyze verify %s: got %v: %s, want nothing about it", u.name, err, out)
		}
	}
}

// The commands of two-machines.md and both units use the same paths.
func TestDocs_PathsOfUnitsAgree(t *testing.T) {
	pages := read(t)
	page := pages[slices.IndexFunc(pages, func(p Page) bool { return p.Name == "two-machines" })]
	var shell string
	for _, b := range page.Blocks {
		if b.Lang == "sh" && b.Tag == "lab" {
			shell += b.Text
		}
	}
	one := func(text, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("docs/two-machines.md has no %s", pattern)
		}
		return m[1]
	}
	all := units(t)
	serve, envoy := all[0], all[1]
	folder := one(envoy.text, `WorkingDirectory=(\S+)`)
	for what, pair := range map[string][2]string{
		"Envoy's bootstrap":    {one(shell, `> (/\S+/envoy.yaml)`), one(envoy.text, `envoy -c (\S+)`)},
		"Envoy's admin socket": {one(shell, `--admin unix:(\S+)`), one(envoy.text, `drain --admin (\S+)`)},
		"Envoy's folder":       {one(shell, `install -d -o penstock -g penstock (\S+)`), folder},
		"folder of Envoy":      {"/var/lib/" + one(envoy.text, `StateDirectory=(\S+)`), folder},
		"state folder":         {"/var/lib/" + one(serve.text, `StateDirectory=(\S+)`), one(serve.text, `--state (\S+)`)},
		"addresses":            {one(shell, `> (/\S+/env) `), one(serve.text, `EnvironmentFile=(\S+)`)},
		"user":                 {one(shell, `useradd .* (\S+)\n`), one(serve.text, `User=(\S+)`)},
		"user of Envoy":        {one(shell, `useradd .* (\S+)\n`), one(envoy.text, `User=(\S+)`)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("docs/two-machines.md: %s: got %s and %s, want the same", what, pair[0], pair[1])
		}
	}
	for _, u := range all[:2] {
		enabled := regexp.MustCompile(`enable --now [^\n]*\b` + strings.TrimSuffix(u.name, ".service") + `\b`)
		if !enabled.MatchString(shell) {
			t.Errorf("docs/two-machines.md does not enable %s", u.name)
		}
	}
}

func TestDocs_MistakesInUnitsAreFound(t *testing.T) {
	u := parseUnit("a.service", "# a comment\n[Service]\nUser=a\nExecStart=/bin/penstock serve \\\n--state b\n")
	if got := u.get("ExecStart"); len(got) != 1 || got[0] != "/bin/penstock serve --state b" {
		t.Errorf("ExecStart: got %q, want both lines as one command", got)
	}
	if u.directives[0] != [3]string{"Service", "User", "a"} || slices.Contains(directives["Service"], "UserName") {
		t.Errorf("got %q, want User=a first, and no directive UserName", u.directives)
	}
}
