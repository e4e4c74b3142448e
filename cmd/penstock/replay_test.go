package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const smallTrace = "../../picker/simulation/testdata/conversation.jsonl"

func replayed(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	out, stderr, err := replayedApart(t, in, args...)
	return out + stderr, err
}

func replayedApart(t *testing.T, in string, args ...string) (string, string, error) {
	t.Helper()
	cmd := newReplay()
	var out, stderr bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&stderr)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), stderr.String(), err
}

func TestReplay_EqualArgumentsPrintEqualBytes(t *testing.T) {
	args := []string{smallTrace, "--strategy", "load", "--strategy", "llm-d", "--strategy", "random", "--servers", "2",
		"--speed", "0.5", "--spread"}
	first, err := replayed(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	row := `%s +\d+\.\d{3}s +\d+\.\d{3}s +\d+\.\d{3}s +\d+\.\d%% +[12]\.\d\d\n`
	want := `^STRATEGY +TTFT P50 +TTFT P90 +END TO END +PREFIX HITS +BALANCE\n`
	for _, name := range []string{"load", "llm-d", "random"} {
		want += fmt.Sprintf(row, name)
	}
	if !regexp.MustCompile(want).MatchString(first) {
		t.Errorf("got\n%s\nwant a match of %s", first, want)
	}
	if second, err := replayed(t, "", args...); err != nil || second != first {
		t.Errorf("got %v\n%s\nthen\n%s\nwant the same", err, first, second)
	}
	trace, err := os.ReadFile(smallTrace)
	if err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "trace.gz")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(trace); err != nil || w.Close() != nil || os.WriteFile(packed, b.Bytes(), 0o600) != nil {
		t.Fatal("no trace")
	}
	for name, in := range map[string]string{packed: "", "-": string(trace)} {
		if got, err := replayed(t, in, append([]string{name}, args[1:]...)...); err != nil || got != first {
			t.Errorf("%s: got %v\n%s\nwant\n%s", name, err, got, first)
		}
	}
}

const twoPools = `{"timestamp": 5, "input_length": 600, "output_length": 1, "hash_ids": [1, 2], "pool": "a/x"}
{"timestamp": 6, "input_length": 9000, "output_length": 1, "pool": "b/y"}
{"timestamp": 7, "input_length": 9000, "output_length": 1}
{"timestamp": 8, "input_length": 600, "output_length": 1, "hash_ids": [1, 3], "pool": "a/x"}
`

// With --pool, the result is as for a trace of this pool's requests alone.
func TestReplay_OnePoolOfTheTrace(t *testing.T) {
	got, err := replayed(t, twoPools, "-", "--pool", "a/x", "--strategy", "load")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(twoPools, "\n")
	want, err := replayed(t, lines[0]+lines[3], "-", "--strategy", "load")
	if err != nil || got != want || !strings.Contains(got, "2 requests") {
		t.Errorf("%v\n%s\nwant that of its requests alone:\n%s", err, got, want)
	}
}

// Failed requests, and a request too large for each server, do not change the result.
func TestReplay_RequestsThatNoServerServesAreLeftOut(t *testing.T) {
	const good, big, failing = `{"timestamp": %d, "input_length": 600, "output_length": 1, "hash_ids": [1, 2], "status": 200}` + "\n",
		`{"timestamp": 9, "input_length": 1048576, "output_length": 2}` + "\n",
		`{"timestamp": %d, "input_length": 600, "output_length": 1, "hash_ids": [1, 2], "status": %d}` + "\n"
	alone, _, err := replayedApart(t, fmt.Sprintf(good+good, 0, 90), "-")
	if err != nil {
		t.Fatal(err)
	}
	trace := fmt.Sprintf(failing+good+"\n"+big+failing+good+big, 5, 429, 10, 20, 503, 100)
	got, stderr, err := replayedApart(t, trace, "-")
	if err != nil || got != alone {
		t.Errorf("%v\n%s\nwant the output without that request:\n%s", err, got, alone)
	}
	const want = "left out 2 of 6 requests: they failed; the first is standard input:1, with status 429\n" +
		"left out 2 of 6 requests: the KV cache of a server has 768000 tokens, set --kv-blocks; the first is " +
		"standard input:4, with 1048578 tokens\n"
	if stderr != want {
		t.Errorf("standard error has %q, want %q", stderr, want)
	}
	if _, stderr, err := replayedApart(t, trace, "-", "--kv-blocks", "3000"); err != nil ||
		strings.Count(stderr, "\n") != 1 {
		t.Errorf("with room for all: got %v, %q, want one line", err, stderr)
	}
	if _, _, err := replayedApart(t, fmt.Sprintf(failing, 1, 500)+big, "-"); err == nil ||
		!strings.Contains(err.Error(), "status 500; left out 1 of 2 requests: the KV cache") {
		t.Errorf("without any other request: got %v, want status 500, and one left out", err)
	}
}

func TestReplay_MistakesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		args     []string
	}{
		{`{"timestamp": 1}`, "standard input:1: input_length must be the tokens of the prompt, 1 to 1048576",
			[]string{"-"}},
		{"", "standard input: the trace has no requests", []string{"-"}},
		{"", "--servers must be 1 to 1000", []string{"-", "--servers", "0"}},
		{"", "--speed must be more than 0", []string{"-", "--speed", "NaN"}},
		{"", `--strategy: unknown strategy "best"`, []string{"-", "--strategy", "best"}},
		{
			twoPools,
			"standard input: the trace has requests of several pools: none (1), a/x (2), b/y (1): name one with --pool",
			[]string{"-"},
		},
		{
			twoPools,
			"standard input: the trace has no request of pool b/z, but of none (1), a/x (2), b/y (1): name one " +
				"with --pool", []string{"-", "--pool", "b/z"},
		},
		{`{"timestamp": 1, "input_length": 60, "output_length": 1}`,
			"standard input: the trace names no pools: leave out --pool", []string{"-", "--pool", "b/z"}},
		{`{"timestamp": 1, "input_length": 6000, "output_length": 1}`,
			"no request can be replayed: left out 1 of 1 requests: the KV cache of a server has 5120 tokens, set " +
				"--kv-blocks; the first is standard input:1, with 6001 tokens", []string{"-", "--kv-blocks", "10"}},
	} {
		if _, err := replayed(t, tt.in, tt.args...); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %s", tt.args, err, tt.want)
		}
	}
}

// Only a stream has a TTFT. A line without "stream": true has none.
func TestReplay_AnswersThatAreNotStreamed(t *testing.T) {
	const line = `{"timestamp": %d, "input_length": 600, "output_length": 90, "hash_ids": [1, 2], "took": 900%s}` + "\n"
	whole, err := replayed(t, fmt.Sprintf(line, 1, ""), "-", "--strategy", "load")
	if err != nil || !regexp.MustCompile(`load +- +- +\d\.\d{3}s`).MatchString(whole) {
		t.Errorf("got %v\n%s\nwant no TTFT of an answer that is not streamed", err, whole)
	}
	stream, err := replayed(t, fmt.Sprintf(line, 1, `, "stream": true`), "-", "--strategy", "load")
	if err != nil || !regexp.MustCompile(`load +0\.\d{3}s +0\.\d{3}s +\d\.\d{3}s`).MatchString(stream) {
		t.Errorf("got %v\n%s\nwant a TTFT of a stream", err, stream)
	}
}
