package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/multicluster/federation"
)

// subscribe subscribes to the site's exports with certificates and a first message. nil means a
// member's certificate, and a valid message. It returns the first response, or the error that ended
// the stream. With hold, it waits for the stream's end.
func (s *set) subscribe(ctx context.Context, certificates []tls.Certificate, message []byte,
	hold bool) (*discoveryv3.DeltaDiscoveryResponse, error) {
	if message == nil {
		message, _ = proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "exports"}) // cannot fail
	}
	return parties.Follow(ctx, s.self.Peer.Address, certificates, hold, message)
}

func TestClusterSet_StrangersLearnNothingAndCostNothing(t *testing.T) {
	s := startSet(t, "", nil)
	traffic, before, peak := s.traffic(), s.rss(s.penstock), s.peak(s.penstock)
	theirs, own := parties.NewCA(t), s.good.CA
	for what, certificates := range map[string][]tls.Certificate{
		"no certificate":                      nil,
		"one of another authority":            {theirs.Identity("good", federation.ProcessPath, time.Hour)},
		"one of a cluster that is no member":  {own.Identity("other", federation.ProcessPath, time.Hour)},
		"one that has expired":                {own.Identity("good", federation.ProcessPath, -time.Minute)},
		"one of a workload of a member":       {own.Identity("good", "/ns/default/sa/app", time.Hour)},
		"one of this cluster by another name": {theirs.Identity("east", federation.ProcessPath, time.Hour)},
	} {
		if got, err := s.subscribe(t.Context(), certificates, nil, false); err == nil {
			t.Errorf("with %s: got %v, want an error", what, got)
		}
	}
	conns, err := Idle(t.Context(), net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}},
		s.self.Peer.Address, 300)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	s.Eventually("connections of one address that prove nothing are few", func() error {
		if n := Open(conns); n > 64 {
			return fmt.Errorf("%d of %d are open, want at most 64", n, len(conns))
		}
		return nil
	})
	member := []tls.Certificate{own.Identity("good", federation.ProcessPath, time.Hour)}
	if got, err := s.subscribe(t.Context(), member, nil, false); err != nil || got.GetTypeUrl() != "exports" {
		t.Errorf("a member gets %v, %v, want exports", got, err)
	}
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
	if size := s.logSize("penstock"); size > 64<<10 {
		t.Errorf("penstock logged %d bytes, want at most %d", size, 64<<10)
	}
	traffic.end()
}

func TestClusterSet_RequestsOfAMemberAreBounded(t *testing.T) {
	s := startSet(t, "", nil)
	traffic, before, peak := s.traffic(), s.rss(s.penstock), s.peak(s.penstock)
	member := []tls.Certificate{s.good.Identity("good", federation.ProcessPath, time.Hour)}
	first, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "exports"})
	if err != nil {
		t.Fatal(err)
	}
	for what, message := range map[string][]byte{
		// in a nonce
		"a large message": append(first[:len(first):len(first)],
			append([]byte{0x32, 0x80, 0x80, 0x80, 0x20}, make([]byte, 64<<20)...)...),
		// in versions
		"millions of items": append(first[:len(first):len(first)], bytes.Repeat([]byte{0x2a, 0x00}, 7<<20)...),
		// in a field that the channel does not use
		"names of resources": append(first[:len(first):len(first)], bytes.Repeat([]byte{0x1a, 0x00}, 1000)...),
		"nonsense":           []byte(strings.Repeat("nonsense", 1000)),
	} {
		for range 8 {
			if got, err := s.subscribe(t.Context(), member, message, false); err == nil {
				t.Errorf("%s: got %v, want an error", what, got)
			}
		}
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	denied := make(chan error, 32)
	for range cap(denied) {
		go func() { // ends with ctx
			_, err := s.subscribe(ctx, member, nil, true)
			denied <- err
		}()
	}
	s.Eventually("streams of one member are few", func() error {
		select {
		case err := <-denied:
			if status.Code(err) == codes.ResourceExhausted {
				return nil
			}
			return err
		default:
			return fmt.Errorf("denied streams: got none of %d, want one", cap(denied))
		}
	})
	if most := peak(); most > before+256 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+256)
	}
	measured.memory(s.within(s.penstock))
	traffic.end()
}
