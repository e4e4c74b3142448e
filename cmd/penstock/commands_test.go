package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/supervisor"
)

func penstock(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Two flags exclude each other, or a value has no effect: the error names the flags.
func TestCommand_FlagsWithoutEffectAreErrors(t *testing.T) {
	for _, tt := range []struct {
		args  string
		names []string
	}{
		{
			"explain --last 2 --why x",
			[]string{
				"--last and --why exclude each other: use --why ID for the picks of one request, or --last N for the " +
					"newest picks",
			},
		},
		{
			"explain --why x --pool a/b", []string{
				"--pool goes with --last: leave it out, or use --last N instead of --why",
			},
		}, {"explain --pool a/b", []string{"--pool goes with --last: add --last N"}},
		{
			"explain --last 2 -X POST",
			[]string{"--method (-X) goes with a URL: leave it out, or use a URL instead of --last"},
		},
		{
			"explain --why x -H a:b",
			[]string{"--header (-H) goes with a URL: leave it out, or use a URL instead of --why"},
		},
		{"explain --last 2 --model m", []string{"--model goes with a URL:"}},
		{"explain --last 2 --gateway default/gw", []string{"--gateway goes with a URL:"}},
		{"explain --last 2 http://a", []string{"leave out the URL"}},
		{"explain --last 0", []string{"--last must be 1 or more"}}, {"explain --why=", []string{"--why needs the ID"}},
		{"up --record-bytes 2Mi -f " + t.TempDir(), []string{"--record-bytes", "--record:"}},
		{"sim --max-num-seqs 0 --listen 127.0.0.1:0", []string{"--max-num-seqs"}},
		{"sim --kv-cache-tokens 0 --listen 127.0.0.1:0", []string{"--kv-cache-tokens"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a server that wrongly starts
		root := newRoot()
		root.SetArgs(strings.Fields(tt.args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(ctx)
		cancel()
		for _, name := range tt.names {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: got %v, want an error that names %s", tt.args, err, name)
			}
		}
	}
}

func TestCommand_HasExamples(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.HasSubCommands() && !strings.Contains(cmd.Example, "penstock ") {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its line in the list is %q, want one without a full stop", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestCommand_UnknownSubcommandIsAnError(t *testing.T) {
	for _, args := range [][]string{{"frob"}, {"debug", "frob"}, {"debug", "store", "frob"}} {
		if _, err := penstock(t, args...); err == nil ||
			!strings.Contains(err.Error(), `unknown command "frob" for "penstock`) {
			t.Errorf("penstock %s: got %v, want unknown command", strings.Join(args, " "), err)
		}
	}
	if out, err := penstock(t, "debug", "xds"); err != nil || !strings.Contains(out, "streams") {
		t.Errorf("a group without a subcommand: got %v\n%s\nwant a help with streams", err, out)
	}
}

func TestCommand_MissingFolderIsAnErrorWithAFix(t *testing.T) {
	for _, args := range [][]string{{"up"}, {"status"}, {"translate"}, {"debug", "xds", "streams"}} {
		_, err := penstock(t, append(args, "-f", "nodir")...)
		if err == nil || !strings.Contains(err.Error(),
			"nodir: no such file or directory; name a folder or file that exists") {
			t.Errorf("penstock %s: got %v, want that nodir does not exist", strings.Join(args, " "), err)
		}
	}
}

func TestDebug_ErrorsNameTheProcessOnceAndTheFix(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Nope") {
			http.Error(w, `no kind "Nope"`, http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"revision": 1, "objects": []}`))
	}))
	defer pages.Close()
	at := strings.TrimPrefix(pages.URL, "http://")
	state := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"store", "show", "Nope", "--http", at},
			"the process at " + at + ` answered 404 Not Found: no kind "Nope"`},
		{[]string{"store", "show", "Service", "default/none", "--http", at},
			"this process has no Service default/none: list its objects with penstock debug store show Service"},
		{[]string{"xds", "streams", "--state", state},
			"no penstock answers at " + state +
				"/api.sock: connect: no such file or directory; start penstock up -f FOLDER, or give the -f and " +
				"--state that it runs with"},
	} {
		if _, err := penstock(t, append([]string{"debug"}, c.args...)...); err == nil || err.Error() != c.want {
			t.Errorf("penstock debug %s:\n%v\nwant\n%s", strings.Join(c.args, " "), err, c.want)
		}
	}
}

func TestStateFolder_InUseEndsAProcessBeforeItPrintsAddresses(t *testing.T) {
	files, state := t.TempDir(), shortTemp(t)
	socket, err := app.ListenSocket(nil, ports.Local, app.Socket(state))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, args := range [][]string{{"serve", "--picker", "127.0.0.1:0"},
		{"picker", "--pool-name", "chat", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"},
		{"hub", "--http", "127.0.0.1:0"}} {
		out, err := penstock(t, append(args, "-f", files, "--state", state)...)
		if err == nil || !strings.Contains(err.Error(),
			"another penstock serves this state folder already ("+state+
				"): stop it, or choose another one with --state") || strings.Contains(out, " at 127.0.0.1:") ||
			strings.Contains(out, "picking") {
			t.Errorf("penstock %s: got %v\n%s\nwant that another penstock serves this state folder", args[0], err, out)
		}
	}
}

func TestSim_HelpAndReferenceHaveEveryPath(t *testing.T) {
	server, err := modelserver.New(modelserver.Config{Model: "m", PrefixCaching: true})
	if err != nil {
		t.Fatal(err)
	}
	help, err := penstock(t, "sim", "--help")
	if err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile(filepath.Join(root, pages, "http-pages.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(reference), "## Simulated model server\n")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, path := range server.Paths() {
		whole := regexp.MustCompile(`(^|[^/\w])` + regexp.QuoteMeta(path) + `($|[^/\w])`)
		if !whole.MatchString(help) || !whole.MatchString(list) {
			t.Errorf("%s: in the help: %t, in docs/reference: %t, want both", path, whole.MatchString(help),
				whole.MatchString(list))
		}
	}
}

func TestDebug_PickerShowsWhyAnEndpointIsNotFresh(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(
			[]byte(
				`{"known": true, "strategy": "load", "verdicts": [{"address": "10.0.0.1:80", "state": {"fresh": false}, "problem": "metrics page http://10.0.0.1:80/metrics: status 404"},
			{"address": "10.0.0.2:80", "state": {"fresh": true}}]}`))
	}))
	defer pages.Close()
	out, err := penstock(t, "debug", "picker", "show", "default/chat", "--http",
		strings.TrimPrefix(pages.URL, "http://"))
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) < 4 || !strings.HasSuffix(lines[1], "PROBLEM") ||
		!strings.HasSuffix(lines[2], "metrics page http://10.0.0.1:80/metrics: status 404") ||
		!strings.HasSuffix(lines[3], " -") {
		t.Errorf("got %v\n%s\nwant the problem status 404 of the first server alone", err, out)
	}
}

func TestPicker_TableShowsThePartsOfACost(t *testing.T) {
	number := func(n float64) *float64 { return &n }
	for _, tt := range []struct {
		v          schedule.Verdict
		cell, text string
	}{
		{
			schedule.Verdict{
				Cost: number(0.12), Costs: map[string]float64{"in-flight": 0.02, "backlog": 0.1, "others": 0},
			}, "0.120 (backlog 0.100, in-flight 0.020)", "; cost 0.120 s (backlog 0.100, in-flight 0.020)",
		},
		{schedule.Verdict{Cost: number(0), Costs: map[string]float64{"in-flight": 0, "backlog": 0}}, "0.000",
			"; cost 0.000 s"},
		{schedule.Verdict{Cost: number(3), Costs: map[string]float64{"requests": 3}}, "3.000", "; cost 3"},
		{schedule.Verdict{}, "-", ""},
	} {
		if got := costCell(tt.v); got != tt.cell {
			t.Errorf("cell %q, want %q", got, tt.cell)
		}
		if got := costText(tt.v); got != tt.text {
			t.Errorf("text %q, want %q", got, tt.text)
		}
	}
}

func TestVersion_NamesTheEnvoyThatUpStarts(t *testing.T) {
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := penstock(t, "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var v versions
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Envoy != envoy.Version || v.Path != envoy.Path ||
		v.NoEnvoy != "" || v.Penstock == "" {
		t.Errorf("got %v: %s, want Envoy %s", err, out, envoy.Version)
	}
	if out, err = penstock(t, "version"); err != nil || !strings.HasPrefix(out, "penstock ") ||
		!strings.Contains(out, envoy.Version+" ("+envoy.Path+")") {
		t.Errorf(`%v: %s, want the beginning "penstock " and a text with %q`,
			err, out, envoy.Version+" ("+envoy.Path+")")
	}
}

// penstock version reports the same API versions as the manifests that README.md installs.
func TestVersion_NamesWhatTheReleaseIsTestedWith(t *testing.T) {
	// A test binary has no module list.
	out, err := exec.CommandContext(t.Context(), "penstock", "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v versions
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/gateway-api/releases/download/" + v.GatewayAPI + "/",
		"/gateway-api-inference-extension/releases/download/" + v.InferenceExtension + "/",
		"Envoy " + v.TestedEnvoy + " "} {
		if !strings.Contains(string(page), want) {
			t.Errorf("README.md: want %q, which penstock version prints: %s", want, out)
		}
	}
}

func TestVersion_WithoutEnvoyNamesTheCause(t *testing.T) {
	t.Setenv("ENVOY", "/no/such/envoy")
	out, err := penstock(t, "version")
	if err != nil || !strings.Contains(out, "/no/such/envoy") {
		t.Errorf(`%v: %s, want a text with "/no/such/envoy"`, err, out)
	}
}

func TestVersion_UnknownOutputIsAnError(t *testing.T) {
	if out, err := penstock(t, "version", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("got %v: %s, want text or json", err, out)
	}
}

func TestSim_InvalidFlagIsAnError(t *testing.T) {
	if _, err := penstock(t, "sim", "--listen", "127.0.0.1:0", "--fail-rate", "2"); err == nil ||
		!strings.Contains(err.Error(), "between 0 and 1") {
		t.Errorf("got %v, want between 0 and 1", err)
	}
}
