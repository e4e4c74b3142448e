package attacks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/multicluster/federation"
)

var printed = flag.Bool("figures", false,
	"measure the cost of hostile members, and print it as figures of conformance/bench")

type memberFigures struct {
	mu    sync.Mutex
	peak  int64              // of penstock's memory, in bytes
	hub   float64            // share of the hub's memory limit
	ratio map[string]float64 // by attack: p99 latency of honest requests under the attack, divided by p99 without it
}

var measured = &memberFigures{ratio: map[string]float64{}}

func (f *memberFigures) memory(peak int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peak = max(f.peak, peak)
}

func (f *memberFigures) ofHub(peak, limit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub = max(f.hub, float64(peak)/float64(limit))
}

func (f *memberFigures) print(w io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := func(name string, value float64) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "value": value})
	}
	if f.peak > 0 {
		line("attack_member_memory", float64(f.peak)/float64(memory))
		line("attack_member_memory.peak", float64(f.peak)/(1<<20))
	}
	if f.hub > 0 {
		line("attack_hub_memory", f.hub)
	}
	worst := 0.0
	for _, ratio := range f.ratio {
		worst = max(worst, ratio)
	}
	if worst > 0 {
		line("attack_member_p99", worst)
	}
}

// hostileMember is an environment variable: the path of a file that describes the child's member.
const hostileMember = "HOSTILE_MEMBER"

// attacks is the line that a child prints when one of its attacks begins.
const attacks = "it attacks"

type attacker struct {
	Attack      int // index in hostileExports
	Address     string
	Certificate []byte // in PEM, with its key
}

func beHostile(path string) int {
	var figures attacker
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &figures)
	}
	var certificate tls.Certificate
	if err == nil {
		certificate, err = tls.X509KeyPair(figures.Certificate, figures.Certificate)
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", figures.Address)
	}
	if err == nil {
		var rounds atomic.Int64
		a := hostileExports()[figures.Attack]
		err = parties.Server(certificate, &rounds, func(v *parties.Subscriber) error {
			fmt.Println(attacks)
			return a.do(v)
		}).Serve(l)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// apart runs a member's attack in a separate process, which is stopped at first. From begin until
// end, the process has a quarter of a core.
func apart(s *set, p *parties.Publisher, i int) (one *process.Process, begin func() (end func())) {
	s.Helper()
	certificate := p.Identity(p.Name, federation.ProcessPath, time.Hour)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		s.Fatal(err)
	}
	text, err := json.Marshal(attacker{i, p.Listener.Addr().String(), slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))})
	path := filepath.Join(s.dir, p.Name+".json")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
	_ = p.Listener.Close()
	c := confine("attacker", limits{Cores: 0.25})
	s.Cleanup(c.release)
	binary, args := c.command(os.Args[0])
	env := []string{hostileMember + "=" + path, "GOMAXPROCS=1"}
	one, err = process.Start(p.Name, filepath.Join(s.dir, p.Name+".log"), binary, env, args...)
	if err != nil {
		s.Fatal(err)
	}
	one.Signal(syscall.SIGSTOP)
	s.Cleanup(func() { // runs before c.release, which was registered earlier
		one.Signal(syscall.SIGKILL)
		<-one.Ended()
	})
	return one, func() (end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var throttled sync.WaitGroup
		one.Signal(syscall.SIGCONT)
		throttled.Go(func() { c.throttle(ctx, one) })
		return func() {
			cancel()
			throttled.Wait()
			one.Signal(syscall.SIGSTOP)
		}
	}
}

// times sends honest requests in sequence, and returns their durations. Each request must be
// answered 200.
func (s *set) times(client *http.Client, n int) (took []time.Duration) {
	s.Helper()
	for range n {
		start := time.Now()
		resp, err := client.Post("http://"+local(s.gateway)+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			s.Fatalf("an honest request: got %v, %v, want 200", resp, err)
		}
		took = append(took, time.Since(start))
	}
	return took
}

func p99(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)*99/100])
}

// turns is the number of turns with the attack, and of turns without it. They alternate, so that
// other load of the machine affects both alike.
const turns = 8

// Requests are answered during each attack of a member, whose process has a quarter of a core. With
// -figures, the test measures the requests' durations.
func TestClusterSet_HostileMemberLeavesHonestRequestsAnswered(t *testing.T) {
	pairs, turn := 1, 10
	if *printed {
		pairs, turn = 5, 250
	}
	client := &http.Client{Timeout: 10 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	for i, a := range hostileExports() {
		t.Run(a.name, func(t *testing.T) {
			evil := parties.NewPublisher(t, "evil-0")
			s := startSet(t, "", nil, evil)
			one, begin := apart(s, evil, i)
			var ratios []float64
			for range pairs {
				var with, without []time.Duration
				for range turns {
					without = append(without, s.times(client, turn)...)
					end := begin()
					if len(with) == 0 {
						s.Eventually("the attack has begun", func() error {
							if !strings.Contains(s.log(evil.Name), attacks) {
								return errors.New("it has not")
							}
							return nil
						})
					}
					with = append(with, s.times(client, turn)...)
					end()
					s.times(client, turn/5) // meanwhile, Penstock reads the attacker's messages
				}
				ratios = append(ratios, p99(with)/p99(without))
			}
			if err := one.Running(); err != nil {
				t.Error(err)
			}
			slices.Sort(ratios)
			t.Logf("p99 under the attack over p99 without: %.2f", ratios)
			measured.mu.Lock()
			defer measured.mu.Unlock()
			if *printed {
				measured.ratio[a.name] = ratios[len(ratios)/2]
			}
			measured.peak = max(measured.peak, s.within(s.penstock))
		})
	}
}
