package status_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

func routeReports(n int) []report.Report {
	out := make([]report.Report, n)
	for i := range out {
		owner := report.Ref{Group: gatewayGroup, Kind: "HTTPRoute", Namespace: "default",
			Name: fmt.Sprintf("route-%04d", i)}
		out[i] = report.Report{
			Owner: owner, Parents: []report.Parent{
				parent("gw", "", cond("Accepted", "True", "Accepted", ""),
					cond("ResolvedRefs", "True", "ResolvedRefs", "")),
			},
		}
	}
	return out
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkBoard_Memory measures the memory that the board needs for the reports of 5,000 routes,
// without the reports themselves, which translation holds.
func BenchmarkBoard_Memory(b *testing.B) {
	const routes = 5000
	var used uint64
	for b.Loop() {
		reports := routeReports(routes)
		before := liveHeap()
		board := status.NewBoard(nil)
		board.Set(status.Translation, reports...)
		used = liveHeap() - before
		runtime.KeepAlive(board)
		runtime.KeepAlive(reports)
	}
	b.ReportMetric(float64(used)/routes, "B/report")
}

// BenchmarkBoard_Set measures setting one report on a board with 5,000 others, with and without a
// waiting reader.
func BenchmarkBoard_Set(b *testing.B) {
	reports := routeReports(5000)
	board := status.NewBoard(nil)
	board.Set(status.Translation, reports...)
	feed := board.Follow()
	defer feed.Close()
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		r := reports[i%len(reports)]
		r.AttachedListenerSets = int32(i)
		board.Set(status.Translation, r)
		i++
	}
}

func BenchmarkBoard_List(b *testing.B) {
	board := status.NewBoard(nil)
	board.Set(status.Translation, routeReports(5000)...)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(board.List(nil)); n != 5000 {
			b.Fatal(n)
		}
	}
}
