package attacks

import (
	"testing"

	"google.golang.org/grpc/credentials/insecure"
)

// 50 unauthorized streams with messages of 32 MiB used 5.4 GB before messages were limited.
func TestADS_StreamsWithoutAuthorizationCostNoMemory(t *testing.T) {
	s := start(t, nil)
	withstands(t, s, 64<<20, 64)
}

// At the socket, Penstock detects an unauthorized client only after it has read a message. So the
// sum of all clients' messages is bounded.
func TestADS_LargestMessagesCostBoundedMemory(t *testing.T) {
	s := start(t, nil)
	withstands(t, s, 15<<20, 512)
}

// withstands sends a message of this size on each of 100 streams. The test fails if penstock's
// memory grows by more than more MiB.
func withstands(t *testing.T, s *site, bytes int, more float64) {
	t.Helper()
	traffic := s.traffic()
	before := s.rss(s.penstock)
	peak := s.peak(s.penstock)
	ends, err := Flood(t.Context(), s.ads, insecure.NewCredentials(), 100, bytes)
	most := peak()
	t.Logf("%.0f MiB before, %.0f at the peak", before, most)
	if most > before+more {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak: %v, want at most %.0f",
			before, most, ends, before+more)
	}
	if err != nil {
		t.Errorf("some streams do not end: %v; the others: %v", err, ends)
	}
	if size := s.logSize("penstock"); size > 1<<20 {
		t.Errorf("penstock logged %d bytes, want at most %d", size, 1<<20)
	}
	traffic.end()
}
