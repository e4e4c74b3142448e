package attacks

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Before, the 2 GiB of Envoy's heap were full with the streams of 30 connections, and every request was answered 503: small
// bodies did not count.
func TestUpload_SmallHTTP2StreamsOfOneClientLeaveOthersServed(t *testing.T) {
	s := start(t, nil)
	s.write("by-model.yaml", modelRoute)
	s.write("buffered.yaml", poolObjects("buffered", "/buffered", []string{"gw"}, at(s.server))+bufferedPool)
	attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // another machine
	large := `{"model":"m","prompt":"` + strings.Repeat("a", 30<<20) + `"}`
	for _, path := range []string{"/by-model", "/buffered", "/plain"} {
		t.Run(path[1:], func(t *testing.T) {
			s.eventually(path+" takes 30 MiB", func() error { return s.ask(http.MethodPost, path, large) })
			traffic, peak, before := s.traffic(), s.peak(s.envoy), s.rss(s.penstock)
			own := s.peak(s.penstock)
			streams, err := StallStreams(t.Context(), attacker, local(s.gateway), path, 40, 1000, 9999)
			if err != nil {
				t.Fatal(err)
			}
			defer streams.Close()
			s.eventually("most are answered", func() error {
				if n := streams.Ended(); n < 30_000 {
					return fmt.Errorf("%d of 40,000 have ended", n)
				}
				return nil
			})
			for range 20 {
				if err := errors.Join(s.ask(http.MethodPost, path, `{"model":"m"}`), s.askHTTP2(path, `{"model":"m"}`)); err != nil {
					t.Fatalf("a request beside %d stalled streams: %v", 40_000-streams.Ended(), err)
				}
			}
			if err := s.ask(http.MethodPost, path, large); err != nil {
				t.Errorf("another client's upload of 30 MiB: %v", err)
			}
			traffic.end()
			if most := peak(); most > 1024 {
				t.Errorf("Envoy had %.0f MiB at the peak", most)
			}
			if most := own(); most > before+512 {
				t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak", before, most)
			}
			t.Logf("%d stalled; Envoy had %.0f MiB at the peak, penstock %.0f MiB, and %.0f MiB before", 40_000-streams.Ended(), peak(), own(), before)
		})
	}
}

// askHTTP2 is ask over an HTTP/2 connection of its own.
func (s *site) askHTTP2(path, body string) error {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://"+local(s.gateway)+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, errors.New(resp.Status))
	}
	return nil
}
