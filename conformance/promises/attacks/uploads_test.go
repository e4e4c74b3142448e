package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const bufferedPool = `---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: buffered}
spec:
  targetRef: {name: buffered}
  picker: {body: Buffered}
`

// 200 uploads of 32 MiB stop before their last byte. Envoy holds bodies to read a model's name, for
// a picker, or for a retry. The held bodies must not fill Envoy's heap, because then all requests
// are answered 503.
func TestUpload_StalledOnesLeaveOthersServed(t *testing.T) {
	s := start(t, nil)
	s.Write("by-model.yaml", modelRoute)
	s.Write("buffered.yaml", poolObjects("buffered", "/buffered", []string{"gw"}, at(s.server))+bufferedPool)
	large := `{"model":"m","prompt":"` + strings.Repeat("a", 30<<20) + `"}`
	paths := []string{"/by-model", "/buffered", "/plain"}
	for _, path := range paths {
		s.Eventually(path+" takes 30 MiB", func() error { return s.ask("POST", path, large) })
	}
	for _, path := range paths {
		t.Run(path[1:], func(t *testing.T) {
			traffic, peak := s.traffic(), s.peak(s.envoy)
			uploads, err := Stall(t.Context(), local(s.gateway), path, 200, 32<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer uploads.Close()
			for range 100 {
				if err := s.ask("POST", path, `{"model":"m"}`); err != nil {
					t.Fatalf("a request beside %d stalled uploads: %v", 200-uploads.Answered(), err)
				}
			}
			if stalled := 200 - uploads.Answered(); stalled == 0 || stalled > 30 {
				t.Errorf("%d uploads of 32 MiB are held in half of a heap of 0.9 GiB, want 1 to 30", stalled)
			}
			if err := s.ask("POST", path, large); err == nil ||
				!strings.Contains(err.Error(), `"code":"too_many_uploads"`) {
				t.Errorf("a further upload: got %v, want too_many_uploads", err)
			}
			if most := peak(); most > 1024 {
				t.Errorf("Envoy had %.0f MiB at the peak, want at most 1024", most)
			}
			traffic.end()
			uploads.Close()
			s.Eventually("uploads are taken again", func() error { return s.ask("POST", path, large) })
		})
	}
}

// Envoy's overload manager resets the largest HTTP/2 uploads without a declared length.
func TestUpload_StalledHTTP2StreamsLeaveOthersServed(t *testing.T) {
	s := start(t, nil)
	s.Write("by-model.yaml", modelRoute)
	s.Eventually("the route by model serves", func() error { return s.ask("POST", "/by-model", `{"model":"m"}`) })
	traffic := s.traffic()
	peak := s.peak(s.envoy)
	var sent, streams sync.WaitGroup
	var bodies []*io.PipeWriter
	for range 200 {
		body, writer := io.Pipe()
		bodies = append(bodies, writer)
		// ends early if the stream is reset
		sent.Go(func() { _, _ = io.Copy(writer, io.LimitReader(repeated("a"), 32<<20-1)) })
		streams.Go(func() { _ = s.stream(body) })
	}
	sent.Wait()
	for range 100 {
		if err := s.ask("POST", "/by-model", `{"model":"m"}`); err != nil {
			t.Fatalf("a request beside stalled streams: %v", err)
		}
	}
	traffic.end()
	if most := peak(); most > 2.2*1024 {
		t.Errorf("Envoy had %.0f MiB at the peak, want at most %.0f", most, 2.2*1024)
	}
	for _, b := range bodies {
		_ = b.CloseWithError(errors.New("the attack has ended"))
	}
	streams.Wait()
}

// stream sends a body of unknown length on its own HTTP/2 connection, and closes the connection at
// the end.
func (s *site) stream(body io.ReadCloser) error {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://"+local(s.gateway)+"/by-model", body)
	if err != nil {
		return err
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return errors.Join(err, req.Body.Close())
	}
	return errors.Join(req.Body.Close(), fmt.Errorf("answered %s", resp.Status), resp.Body.Close())
}

type repeated string

func (r repeated) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte(r), len(p)/len(r)+1)), nil
}
