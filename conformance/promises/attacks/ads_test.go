package attacks

import (
	"testing"

	"google.golang.org/grpc/credentials/insecure"
)

// Before, 50 streams of 32 MiB that were never authorized took penstock to 5.4 GB and its log to 1.6 GB.
func TestADS_StreamsWithoutAuthorizationCostNoMemory(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	before := s.rss(s.penstock)
	peak := s.peak(s.penstock)
	ends, err := Flood(t.Context(), local(s.xds), insecure.NewCredentials(), 100, 64<<20)
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak", before, most)
	}
	if err != nil {
		t.Errorf("some streams do not end: %v; the others: %v", err, ends)
	}
	if size := s.logSize("penstock"); size > 1<<20 {
		t.Errorf("penstock logged %d bytes", size)
	}
	traffic.end()
}
