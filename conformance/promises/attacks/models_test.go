package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var hostileLists = []http.HandlerFunc{
	func(_ http.ResponseWriter, r *http.Request) { // the answer never begins
		<-r.Context().Done()
	},
	func(w http.ResponseWriter, r *http.Request) { // the answer arrives byte by byte
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	},
	func(w http.ResponseWriter, r *http.Request) { // the answer has no end
		_, _ = io.WriteString(w, `{"data":[`)
		line := []byte(strings.Repeat(`{"id":"x"},`, 1<<10))
		for r.Context().Err() == nil {
			_, _ = w.Write(line)
		}
	},
	func(w http.ResponseWriter, _ *http.Request) { // the JSON is nested without an end
		_, _ = w.Write(bytes.Repeat([]byte(`{"data":[`), 1<<16))
	},
	func(w http.ResponseWriter, _ *http.Request) { // names that break lines, and names of 64 KiB
		_, _ = fmt.Fprintf(w, `{"data":[{"id":"a\nx-evil: 1"},{"id":"%s"},{"id":{}}]}`, strings.Repeat("n", 1<<16))
	},
	func(w http.ResponseWriter, _ *http.Request) { // redirects to another server
		w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
		w.WriteHeader(http.StatusFound)
	},
	func(w http.ResponseWriter, _ *http.Request) { // the answer is no list
		_, _ = io.WriteString(w, `[null,1,"data"]`)
	},
}

func (s *site) listed(path, host string) (names []string, err error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+local(s.gateway)+path+"/v1/models",
		nil)
	if err != nil {
		return nil, err
	}
	req.Host = host
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&list); err != nil ||
		response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %w, want a list", response.Status, err)
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, nil
}

func TestModels_HostileListsLeaveOthersListed(t *testing.T) {
	s := prepare(t, nil)
	servers := []backend{
		at(
			listingServer(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"data":[{"id":"honest"}]}`)
			})),
	}
	for _, attack := range hostileLists {
		servers = append(servers, at(listingServer(t, attack)))
	}
	s.Write("mixed.yaml", poolObjects("mixed", "/mixed", []string{"gw"}, servers...))
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	traffic := s.traffic()
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			for range 50 {
				if got, err := s.listed("/mixed", ""); err != nil || strings.Join(got, " ") != "honest" {
					t.Errorf(`the list: got %.200q, %v, want "honest"`, got, err)
				}
			}
		})
	}
	clients.Wait()
	traffic.end()
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
}

func listingServer(t *testing.T, list http.HandlerFunc) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", list)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// A client requests the list of models at thousands of paths and hosts, also of a rule that leads
// to another cluster's gateway. That gateway gets only few of these requests, at its own address
// and without the client's credentials. The size of its answer is bounded.
func TestModels_PathsOfAClientReachOtherGatewaysRarely(t *testing.T) {
	var calls, leaked atomic.Int64
	many := `{"data":[` + strings.Repeat(`{"id":"other"},`, 40_000) + `{"id":"other"}]}`
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1); r.Header.Get("authorization") != "" || r.Header.Get("cookie") != "" ||
			r.Header.Get("via") != "1.1 penstock" {
			leaked.Add(1)
		}
		_, _ = io.WriteString(w, many)
	}))
	t.Cleanup(far.Close)
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0") // this server must get no connection
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = elsewhere.Close() })
	reached := make(chan struct{})
	go func() {
		if _, err := elsewhere.Accept(); err == nil {
			close(reached)
		}
	}()
	honest := listingServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"own"}]}`)
	})
	both := strings.Replace(poolObjects("both", "/both", []string{"gw"}, at(honest)), "name: both}]\n---",
		"name: both}, {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}]\n---", 1)
	s := start(t, map[string]string{"both.yaml": both + fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status: {clusters: [{name: next, routingMode: ParentMode, parents: [{service: {addresses: [127.0.0.1], ports: [{number: %d}]}}]}]}
`, at(far).port)})
	s.Eventually("the other cluster's models are listed", func() error {
		got, err := s.listed("/both", "")
		if err == nil && strings.Join(got, " ") != "other own" {
			err = fmt.Errorf(`got %.200q, want "other own"`, got)
		}
		return err
	})
	traffic := s.traffic()
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	target := elsewhere.Addr().String()
	var clients sync.WaitGroup
	for i := range 10 {
		clients.Go(func() {
			for n := range 200 {
				host, path := fmt.Sprintf("h%d-%d.example", i, n), fmt.Sprintf("/both/%d/%d", i, n)
				switch n % 4 {
				case 1:
					host = target
				case 2:
					path = "/both/@" + target + "/http://" + target
				case 3:
					path = "/both/" + strings.Repeat("x", 10*n)
				}
				if got, err := s.listed(path, host); err != nil || len(got) == 0 || got[len(got)-1] != "own" {
					t.Errorf(`%.60s at %s: got %.200q, %v, want "own" at the end`, path, host, got, err)
				}
			}
		})
	}
	clients.Wait()
	traffic.end()
	select {
	case <-reached:
		t.Error(errors.New("an address of the client's choice was called"))
	default:
	}
	// one call for each of 16 combinations, and as many after 30 s on a slow machine
	if n := calls.Load(); n > 2*16+1 {
		t.Errorf("2,000 requests had the other gateway called %d times, want at most %d", n, 2*16+1)
	}
	if n := leaked.Load(); n > 0 {
		t.Errorf("%d calls had credentials, or no Via, want none", n)
	}
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
}
