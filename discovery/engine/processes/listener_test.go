package processes

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func impostor(t *testing.T) (url string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system does not show who listens")
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return server.URL + "/health"
}

func decided(st State) bool { return st.Phase == Waiting || st.Phase == Running }

func TestListener_OtherProcessIsNotTakenForTheEngine(t *testing.T) {
	url := impostor(t)
	s := supervise(t, t.TempDir(), func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	p := engine("ns/a/0", "idle")
	p.Ready = url
	s.Want([]Process{p})
	st := until(t, s, p.Name, "has ended, or runs", decided)
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/health")
	if want := "another process listens at " + address; st.Phase != Waiting || st.Reason != want || st.PID != 0 {
		t.Errorf("state %+v, want the reason %q", st, want)
	}
	// With another port, the engine starts at once, not after the back-off.
	p = serving(t, p.Name)
	s.Want([]Process{p})
	untilPhase(t, s, p.Name, Running)
}

func TestListener_DescendantOfTheEngineServes(t *testing.T) {
	for _, mode := range []string{"parent", "daemon"} {
		s := supervise(t, t.TempDir(), func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
		p := serving(t, "ns/a/0")
		p.Env[0] = helperName + "=" + mode
		s.Want([]Process{p})
		if st := until(t, s, p.Name, "has ended, or runs", decided); st.Phase != Running {
			t.Errorf("%s: state %+v", mode, st)
		}
	}
}

func TestListener_OtherProcessAtAnAdoptedEngineIsNoticed(t *testing.T) {
	url := impostor(t)
	dir := t.TempDir()
	first := supervise(t, dir)
	p := engine("ns/a/0", "idle")
	first.Want([]Process{p})
	untilPhase(t, first, p.Name, Running)
	first.Close()
	path := filepath.Join(dir, fileName(p.Name)+recordEnd)
	r, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	r.Ready = url
	if err := writeRecord(path, r); err != nil {
		t.Fatal(err)
	}
	next := supervise(t, dir, func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	if st := stateOf(next, p.Name); st.Phase == Running {
		t.Errorf("state %+v", st)
	}
	p.Ready = url
	next.Want([]Process{p})
	st := untilPhase(t, next, p.Name, Waiting)
	if !strings.HasPrefix(st.Reason, "another process listens at 127.0.0.1:") {
		t.Errorf("state %+v", st)
	}
}

// daemon listens for connected clients, in this process, like a container runtime.
func daemon(t *testing.T) (address string) {
	t.Helper()
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	go func() {
		for {
			client, err := control.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewReader(client)
			at, _ := lines.ReadString('\n')
			server := &http.Server{Addr: strings.TrimSpace(at), Handler: http.HandlerFunc(helperPage)}
			go func() { _ = server.ListenAndServe() }()
			_, _ = io.Copy(io.Discard, lines)
			_ = server.Close()
		}
	}()
	return control.Addr().String()
}

// The engine is a client of a daemon, as docker run is. The daemon listens for it.
func TestListener_EngineOfADaemonServesWithAnyListener(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not show who listens")
	}
	dir := t.TempDir()
	s := supervise(t, dir, func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	p := serving(t, "ns/a/0", "DAEMON="+daemon(t))
	p.Env[0] = helperName + "=client"
	s.Want([]Process{p})
	if st := until(t, s, p.Name, "has ended, or runs", decided); st.Phase != Waiting {
		t.Errorf("without AnyListener: state %+v, want Waiting", st)
	}
	p.AnyListener, p.Env = true, append(p.Env, "AGAIN=1") // another command starts without the back-off
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Running)
	s.Close()
	next := supervise(t, dir)
	if adopted := stateOf(next, p.Name); adopted.Phase != Running || adopted.PID != st.PID {
		t.Errorf("adopted: state %+v, want process %d Running", adopted, st.PID)
	}
	next.Want([]Process{p})
	next.Want(nil)
	until(t, next, p.Name, "is absent", func(st State) bool { return st.Phase == -1 })
	poll.Until(t, "the daemon's server has ended with its client", func() bool { return !probe(t.Context(), p.Ready) })
}

func TestListener_SocketThatGetsTheConnection(t *testing.T) {
	var all []listening
	for _, line := range []string{
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0",
		"   1: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0",
		"   2: 0100007F:1F92 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0",
		"   3: 00000000000000000000000000000000:1F90 0:0000 0A 0:0 00:0 0     0        0 14 1 0",
		"   4: 00000000000000000000000000000000:1F93 0:0000 0A 0:0 00:0 0     0        0 15 1 0",
		"   5: 00000000000000000000000001000000:1F94 0:0000 0A 0:0 00:0 0     0        0 16 1 0",
		"   6: 0000000000000000FFFF00000100007F:1F95 0:0000 0A 0:0 00:0 0     0        0 17 1 0",
		"   7: 0100007F:1F96 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 18 1 0",
		"   8: 0100007F:1F96 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 19 1 0",
		"", "   9: 0100007F", "   9: 0100007F:xxxx 0 0A 0 0 0 0 0 0 20",
	} {
		if l, err := parseListening(line, binary.LittleEndian.PutUint32); err == nil {
			all = append(all, l)
		}
	}
	for to, want := range map[string]string{
		"127.0.0.1:8080": "11", "127.0.0.1:8081": "12", "127.0.0.1:8082": "", "127.0.0.2:8080": "14",
		"127.0.0.1:8083": "15", "[::1]:8084": "16", "127.0.0.1:8084": "", "127.0.0.1:8085": "17",
		"[::1]:8081": "", "[::1]:8080": "14", "127.0.0.1:8086": "18 19",
	} {
		got := receivers(all, netip.MustParseAddrPort(to))
		for _, inode := range strings.Fields(want) {
			if !got[inode] {
				t.Errorf("%s: sockets %v, want %s", to, got, want)
			}
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%s: sockets %v, want %s", to, got, want)
		}
	}
}
