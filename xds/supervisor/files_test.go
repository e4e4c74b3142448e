package supervisor

import (
	"math"
	"testing"
)

// Envoy crashes when connections use up its open files.
func TestSupervisor_ConnectionsLeaveFilesForTheirServers(t *testing.T) {
	for files, want := range map[uint64]int64{
		0: 256, 1024: 256, 4096: 256, 20_000: 7952, 104_095: 49_999, 104_096: 50_000, 1 << 20: 50_000,
		math.MaxUint64: 50_000,
	} {
		if got := connections(files); got != want {
			t.Errorf("%d files: got %d connections, want %d", files, got, want)
		}
	}
}
