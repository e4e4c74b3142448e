package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: example.com/p
BenchmarkPick/100-endpoints-2   	 1498320	       812.4 ns/op	       700 limit-ns/op	      48 B/op	       2 allocs/op
BenchmarkScan-2                 	   30000	     40000 ns/op
Benchmark figures follow here as prose 12 words
PASS
ok  	example.com/p	2.1s
{"name":"change_growth","value":1.5,"unit":"ratio","limit":2,"about":"What a change costs."}
{"name":"change_growth.at_100","value":0.7,"unit":"ms","limit":null}
`

func TestBenchTable_EveryFigureReachesTableAndJSON(t *testing.T) {
	figures, failed, err := parse(strings.NewReader(output))
	if err != nil || failed {
		t.Fatalf("parse: got failed %v, %v, want false and no error", failed, err)
	}
	var got strings.Builder
	if err := write(&got, figures); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"name":"BenchmarkPick/100-endpoints","value":812.4,"unit":"ns/op","limit":700}`,
		`{"name":"BenchmarkPick/100-endpoints","value":48,"unit":"B/op","limit":null}`,
		`{"name":"BenchmarkPick/100-endpoints","value":2,"unit":"allocs/op","limit":null}`,
		`{"name":"BenchmarkScan","value":40000,"unit":"ns/op","limit":null}`,
		`{"name":"change_growth","value":1.5,"unit":"ratio","limit":2}`,
		`{"name":"change_growth.at_100","value":0.7,"unit":"ms","limit":null}`,
		`change_growth: What a change costs.`,
	} {
		if strings.Count(got.String(), want+"\n") != 1 {
			t.Errorf("want the line once: %s\nin:\n%s", want, got.String())
		}
	}
	if len(figures) != 6 {
		t.Errorf("got %d figures, want 6: %+v", len(figures), figures)
	}
	if n := strings.Count(got.String(), "OVER"); n != 1 {
		t.Errorf("%d figures are marked OVER, want exactly the one above its limit:\n%s", n, got.String())
	}
}

func TestBenchTable_FailedBenchmarkFails(t *testing.T) {
	for _, out := range []string{"--- FAIL: BenchmarkPick\n", "FAIL\texample.com/p [build failed]\n", "panic: boom\n"} {
		if _, failed, err := parse(strings.NewReader(output + out)); err != nil || !failed {
			t.Errorf("after %q: failed=%v err=%v, want failed", out, failed, err)
		}
	}
}
