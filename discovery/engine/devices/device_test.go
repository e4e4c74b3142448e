package devices_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// listed parses a file in testdata. The file has the form that nvidia-smi documents for
// --query-gpu.
func listed(t testing.TB, file string) []devices.Device {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	all, err := devices.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func indexes(all []devices.Device) string {
	list := []int{}
	for _, d := range all {
		list = append(list, d.Index)
	}
	return fmt.Sprint(list)
}

func TestDevices_AreParsedAndSorted(t *testing.T) {
	want := []devices.Device{
		{Index: 0, UUID: "GPU-11111111-0000-0000-0000-000000000000", Name: "NVIDIA GeForce RTX 3090", Memory: 24576},
		{Index: 1, UUID: "GPU-22222222-0000-0000-0000-000000000001", Name: "NVIDIA L40S", Memory: 46068},
		{Index: 2, UUID: "GPU-33333333-0000-0000-0000-000000000002", Name: "NVIDIA L40S", Memory: 46068},
		{
			Index: 3, UUID: "GPU-44444444-0000-0000-0000-000000000003", Name: "NVIDIA A100-SXM4-80GB",
			Memory: 81920, MIG: true,
		},
	}
	if diff := cmp.Diff(want, listed(t, "mixed.csv")); diff != "" {
		t.Error(diff)
	}
	for _, none := range []string{"", "\n", "No devices were found\n"} {
		if all, err := devices.Parse(none); err != nil || len(all) != 0 {
			t.Errorf("%q: %v, %v", none, all, err)
		}
	}
	all, err := devices.Parse("0, GPU-1, x, [N/A]\n1, GPU-2, y\n")
	if err != nil || len(all) != 2 || all[0].Memory != 0 {
		t.Errorf("unknown memory: %v, %v", all, err)
	}
}

func TestDevices_BrokenListsAreErrorsWithTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"NVIDIA-SMI has failed":                 "line 1: it has not the form",
		"0, GPU-1, x, 1\nx, GPU-2, x, 1":        `line 2: the index "x"`,
		"-1, GPU-1, x, 1":                       `the index "-1"`,
		"0, [Unknown Error], x, 1":              "the UUID",
		"0, , x, 1":                             "the UUID",
		"0, GPU-1, x, 1\n0, GPU-2, x, 1":        "line 2: its index or UUID",
		"0, GPU-1, x, 1\n1, GPU-1, x, 1":        "line 2: its index or UUID",
		"0, GPU-1, " + strings.Repeat("x", 300): "300 bytes",
	} {
		if _, err := devices.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "%d, GPU-%d, x, 1\n", i, i)
	}
	if _, err := devices.Parse(many.String()); err == nil {
		t.Error("300 devices are no error")
	}
}

func FuzzDevices_ParseNeverPanics(f *testing.F) {
	f.Add("0, GPU-1, x, 1, Enabled\n")
	f.Add(`0, "GPU-1, x`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := devices.Parse(text)
		for _, d := range all {
			if err == nil && (d.UUID == "" || d.Index < 0 || d.Memory < 0) {
				t.Errorf("%q gives %+v", text, d)
			}
		}
	})
}

// If this process inherits CUDA_VISIBLE_DEVICES, from an administrator or a scheduler, it may use
// only the devices in this list.
func TestDevices_InheritedListLimitsThem(t *testing.T) {
	mixed, same := listed(t, "mixed.csv"), listed(t, "two-l40s.csv")
	for _, c := range []struct {
		all   []devices.Device
		value string
		order bool
		want  string
		note  string
	}{
		{mixed, "2,0", true, "[0 2]", ""},
		{mixed, "2,0", false, "[0 2]", "CUDA_DEVICE_ORDER"},
		{same, "1", false, "[1]", ""},
		{mixed, "GPU-2222", false, "[1]", ""},
		{mixed, "GPU-22222222-0000-0000-0000-000000000001,GPU-1", false, "[0 1]", ""},
		{mixed, "1,1", true, "[1]", ""},
		{mixed, "1,9,2", true, "[1]", `ends at "9"`},
		{mixed, "1,-1,2", true, "[1]", `ends at "-1"`},
		{mixed, "", true, "[]", ""},
		{mixed, "GPU-", true, "[]", `ends at "GPU-"`},
		{mixed, "GPU-x", true, "[]", `ends at "GPU-x"`},
		{nil, "0", false, "[]", `ends at "0"`},
	} {
		got, note := devices.Visible(c.all, c.value, c.order)
		if indexes(got) != c.want || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%q: %s %q, want %s %q", c.value, indexes(got), note, c.want, c.note)
		}
	}
}

func TestDevices_ListRunsTheCommand(t *testing.T) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "nvidia-smi")
	run := func(ctx context.Context, text string) ([]devices.Device, error) {
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return devices.List(ctx, []string{"/bin/sh", script, "--query-gpu=index,uuid"})
	}
	all, err := run(t.Context(), `[ "$1" = --query-gpu=index,uuid ] && cat `+data+"/two-l40s.csv")
	if err != nil || indexes(all) != "[0 1]" {
		t.Errorf("%v, %v", all, err)
	}
	if all, err = run(t.Context(), "echo No devices were found; exit 6"); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	failed := "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
	if _, err = run(t.Context(), `echo "`+failed+`"; exit 9`); err == nil || !strings.Contains(err.Error(), failed) {
		t.Errorf("error %v", err)
	}
	_, err = run(t.Context(), "head -c 2000000 /dev/zero")
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		defer cancel()
		poll.Within(poll.Limit, func() bool { _, err := os.Stat(started); return err == nil })
	}()
	if _, err = run(ctx, "touch "+started+"; exec tail -f /dev/null"); err == nil || ctx.Err() == nil {
		t.Errorf("a command that hangs gives %v", err)
	}
	for _, command := range [][]string{nil, {"/does/not/exist"}} {
		if _, err = devices.List(t.Context(), command); err == nil {
			t.Errorf("%v is no error", command)
		}
	}
}

func TestShare_IsAWholeNumberOrAFraction(t *testing.T) {
	for s, want := range map[string]string{
		"0": "0", "1": "1", "2.0": "2", "0.5": "0.5", "0.50": "0.5", "0.125": "0.125", "00": "0", "256": "256",
		"1.5": "whole number", "0.1234": "three digits", "257": "at most", "99999": "not a number",
		"-1": "not a number", "": "not a number", ".5": "not a number", "1.": "not a number", "0.x": "not a number",
		"1e3": "not a number",
		"NaN": "not a number", "+1": "not a number",
	} {
		got, err := devices.ParseShare(s)
		if err == nil && got.String() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", s, got, err, want)
		}
	}
	if got := indexes(devices.Numbered(3)); got != "[0 1 2]" {
		t.Error(got)
	}
}
